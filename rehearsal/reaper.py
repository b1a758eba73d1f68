"""Processes that must not outlive the rehearsal.

Each carries a mark in its environment, which its own children inherit. A small guard process holds
the reading end of a pipe: when the owner is gone, however it ended, the guard kills everything that
carries the owner's mark, and removes the owner's containers and temporary folder.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.containers import Containers, Docker, Podman

MARK = "REHEARSAL_MARK"

CONTAINER_PROGRAMS: Final[Mapping[str, type[Containers]]] = {
    kind.program: kind for kind in (Docker, Podman)
}
"""Programs that can end what they run."""

_GUARD = """
import os, shutil, sys
sys.path.insert(0, sys.argv[1])
from rehearsal.reaper import kill_marked, remove_containers
sys.stdin.buffer.read()
kill_marked(sys.argv[2])
if sys.argv[3]:
    remove_containers(sys.argv[3], sys.argv[2])
if len(sys.argv) > 4:
    shutil.rmtree(sys.argv[4], ignore_errors=True)
"""


class Guard:
    """Ends what was started if the owner cannot."""

    def __init__(self, temporary: Path | None = None, containers: str | None = None) -> None:
        """Start the guard.

        Args:
            temporary: folder to remove at the end.
            containers: program that runs them, if any may be left.
        """
        self.mark = secrets.token_hex(8)
        arguments = [str(Path(__file__).resolve().parents[1]), self.mark, containers or ""]
        arguments += [] if temporary is None else [str(temporary)]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, *arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def marked(self, environment: Mapping[str, str], part: str = "") -> dict[str, str]:
        """An environment for a child; `part` names what is ended together."""
        return {**environment, MARK: f"{self.mark}/{part}"}

    def kill(self, part: str = "") -> None:
        """Kill what carries the mark, or a part of it."""
        kill_marked(f"{self.mark}/{part}")

    def close(self) -> None:
        """Let the guard do its work and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def pids_marked(mark: str) -> list[int]:
    """Processes whose mark begins with this text; a dead one that nobody waited for has none."""
    start = f"{MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(start) for variable in variables):
            found.append(int(folder.name))
    return found


def signal_marked(mark: str, number: signal.Signals) -> int:
    """Send a signal to all processes with a mark; how many there were."""
    found = pids_marked(mark)
    for pid in found:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
    return len(found)


def kill_marked(mark: str) -> None:
    """Kill all processes with a mark, and those that they start meanwhile."""
    while signal_marked(mark, signal.SIGKILL):
        time.sleep(0.02)


def container_name(mark: str, part: str) -> str:
    """Name of a container that belongs to the owner of a mark."""
    return f"rehearsal-{mark}-{part}"


def remove_containers(program: str, mark: str) -> None:
    """Kill and remove all containers of the owner of a mark."""
    command = [
        program,
        "ps",
        "--all",
        "--format={{.Names}}",
        f"--filter=name={container_name(mark, '')}",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    for name in listed.stdout.split():
        CONTAINER_PROGRAMS[program]().remove_container(name)
