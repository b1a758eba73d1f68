"""Ends everything that a rehearsal starts together with it, and with the process that owns it.

Each process carries a mark in its environment, which its children inherit. A small reaper process
holds the reading end of a pipe: when the owner is gone, however it ended, the reaper kills
everything that carries the owner's mark, and removes the owner's containers and temporary folder.
"""

import contextlib
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

from common.containers import ContainerEngine, Docker, Podman
from rehearsal.errors import RehearsalError

MARK: Final = "REHEARSAL_MARK"
"""Environment variable that holds the mark."""
CONTAINER_ENGINES: Final[Mapping[str, type[ContainerEngine]]] = {
    engine.program: engine for engine in (Docker, Podman)
}
"""Container engines that can stop the containers they run, by program name."""

_OWNER: Final = "owner"
_REAPER: Final = """
import os, shutil, sys
sys.path.insert(0, sys.argv[1])
from rehearsal.lifetime import kill_marked, remove_containers
sys.stdin.buffer.read()
kill_marked(sys.argv[2])
if sys.argv[3]:
    remove_containers(sys.argv[3], sys.argv[2])
if len(sys.argv) > 4:
    shutil.rmtree(sys.argv[4], ignore_errors=True)
"""


class StopError(BaseException):
    """A signal requested the end. A BaseException, so that no handler of errors catches it."""


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """Make SIGINT and SIGTERM raise a StopError, the first of them only."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        # A second signal must not interrupt the clean-up.
        for number_ in before:
            signal.signal(number_, signal.SIG_IGN)
        raise StopError

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Reaper:
    """Ends the processes that were started if the owner cannot."""

    def __init__(self, temporary: Path | None = None, containers: str | None = None) -> None:
        """Start the reaper process.

        Args:
            temporary: Folder to delete at the end.
            containers: Program that runs the containers, if any may be left.
        """
        self.mark = secrets.token_hex(8)
        arguments = [str(Path(__file__).resolve().parents[1]), self.mark, containers or ""]
        arguments += [] if temporary is None else [str(temporary)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _REAPER, *arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def marked(self, environment: Mapping[str, str], part: str = "") -> dict[str, str]:
        """Return a marked environment for a child process; `part` names processes that end
        together.
        """
        return {**environment, MARK: f"{self.mark}/{part}"}

    def kill(self, part: str = "") -> None:
        """Kill all processes with the mark, or with one part of it."""
        kill_marked(f"{self.mark}/{part}")

    def close(self) -> None:
        """Let the reaper clean up, and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def pids_marked(mark: str) -> list[int]:
    """Return the processes whose mark starts with this text, without zombies, which have none."""
    start = f"{MARK}={mark}".encode()
    pids = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(start) for variable in variables):
            pids.append(int(folder.name))
    return pids


def signal_marked(mark: str, number: signal.Signals) -> int:
    """Send a signal to all processes with a mark; return how many there were."""
    pids = pids_marked(mark)
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return len(pids)


def kill_marked(mark: str) -> None:
    """Kill all processes with a mark, and those that they start meanwhile."""
    while signal_marked(mark, signal.SIGKILL):
        time.sleep(0.02)


def container_name(mark: str, part: str) -> str:
    """Return the name of a container that belongs to the owner of a mark."""
    return f"rehearsal-{mark}-{part}"


def remove_containers(program: str, mark: str) -> None:
    """Kill and remove all containers of the owner of a mark."""
    engine = CONTAINER_ENGINES[program]()
    names = f"--filter=name={container_name(mark, '')}"
    for name in (engine.output("ps", "--all", "--format={{.Names}}", names) or "").split():
        engine.remove_container(name)


def owner(folder: Path) -> str | None:
    """Return the id of the process that serves from a folder; None if there is none."""
    try:
        with (folder / _OWNER).open() as claim:
            fcntl.flock(claim, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return (folder / _OWNER).read_text()
    return None


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Reserve a folder for one Azure, and protect it from other users of the machine: it holds
    keys.

    Raises:
        RehearsalError: another process uses it.
    """
    folder.chmod(0o700)
    with (folder / _OWNER).open("a+") as claim:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            claim.seek(0)
            raise RehearsalError(
                f"{folder}: in use by process {claim.read().strip()}; stop that process, or choose"
                " another folder"
            ) from error
        claim.truncate(0)
        claim.write(str(os.getpid()))
        claim.flush()
        yield
