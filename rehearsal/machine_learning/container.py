"""The processes of a job in an image: one container, in which mpirun starts the ranks."""

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.containers import Container, ContainerEngine, Docker, Mount, find_engine
from common.errors import UserError
from common.waiting import wait_until
from rehearsal.errors import RehearsalError, user_error
from rehearsal.lifetime import CONTAINER_ENGINES, Reaper, container_name
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.machine_learning.processes import ExitStatus, RankProgram

_STUBBORN_SECONDS: Final = 30.0
"""Seconds until the client of a container that cannot be removed is killed."""
_CLIENTS: Final = re.compile(r"PATH|HOME|TMPDIR|(LD|XDG|DOCKER|CONTAINERS?|STORAGE|DBUS)_\w*")
"""Variables that the client which starts a container reads for itself."""
_FAILED: Final = re.compile(rb"Process name: \[\[\d+,\d+\],(\d+)\]|process rank (\d+) with PID")
"""Matches the rank that ended mpirun, by a status or by a signal."""
_MPIRUN: Final = (
    *("mpirun", "--mca", "plm_rsh_agent", "sh ./reach"),
    *("--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo"),
)
"""No options about binding or root: the image's settings must be sufficient, as in Azure."""
_REACH: Final = """
export TMPDIR="/tmp/$1"
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""
"""Replaces SSH, because all nodes are one container. Each daemon gets its own TMPDIR: they would
otherwise create the same folders at the same time."""


@dataclass(frozen=True)
class JobImage:
    """The image to run all jobs in, and the engine that runs its containers."""

    engine: ContainerEngine
    image: str
    user: str | None = None
    """Numeric user and group of jobs; None for the image's own."""

    def ask_to_end(self, name: str) -> bool:
        """Send SIGTERM to the first process of a container; return whether there was one."""
        return self.engine.output("kill", "--signal=TERM", name) is not None


def open_image(image: str) -> JobImage:
    """Return an image of this machine that can run jobs.

    Raises:
        RehearsalError: no program here can run it, or the image does not exist here.
    """
    with _as_rehearsal_errors(image):
        engine = find_engine()
    if engine.program not in CONTAINER_ENGINES:
        raise RehearsalError(
            f"{image}: {engine.program} can build images, but not stop containers; install"
            " Podman (on Debian and Ubuntu: sudo apt-get install podman)"
        )
    if not engine.has(image):
        raise RehearsalError(
            f"{image}: {engine.program} has no such image on this machine; `make -C tools images`"
            " builds localhost/trainer-cpu:latest"
        )
    with _as_rehearsal_errors(image):
        # Run one now, because Podman may find that it can run nothing on this machine.
        engine.run_command(Container(image, ["true"], "rehearsal"))
    return JobImage(engine, image, _user(engine))


@contextlib.contextmanager
def _as_rehearsal_errors(image: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        raise RehearsalError(f"{image}: cannot run the image: {error}") from error


def _user(engine: ContainerEngine) -> str | None:
    """Return this process's user, if it could not delete files of root; None otherwise."""
    if engine.program != Docker.program or os.geteuid() == 0:
        return None
    # In a rootless engine, root in the container is this user.
    is_rootless = "rootless" in engine.run("info", "--format={{.SecurityOptions}}").stdout
    return None if is_rootless else f"{os.geteuid()}:{os.getegid()}"


class ContainerProcesses:
    """Processes of one job in a container."""

    def __init__(
        self,
        image: JobImage,
        spec: JobSpec,
        programs: Sequence[RankProgram],
        mounts: Sequence[Mount],
        reaper: Reaper,
        part: str,
    ) -> None:
        """Start the processes.

        Args:
            image: Image of the container.
            spec: The job.
            programs: One program per rank.
            mounts: All files and folders of this machine that they see; the folder of the first is
                used by this job only.
            reaper: Ends them if the owner dies.
            part: Part of the reaper's mark for these processes only.
        """
        self._engine, self._image, self._reaper = image.engine, image, reaper
        self._part, self._log = part, programs[0].log
        self._name = container_name(reaper.mark, part.strip("/"))
        scripts = mounts[0].source / "ranks"
        shared = shared_variables(programs)
        if image.user is not None:
            # The image does not know this user, and programs ask for its name.
            shared |= {"USER": "user"}
        _write(scripts, programs, shared)
        container = Container(
            image=image.image,
            program=_command(spec),
            name=self._name,
            mounts=mounts,
            variables=sorted(reaper.marked(shared, part)),
            folder=str(scripts),
            host_network=True,
            user=image.user,
        )
        # Output of mpirun and the client comes after the output of rank 0.
        with self._log.open("ab") as log:
            self._client = subprocess.Popen(
                self._engine.run_command(container),
                env=reaper.marked({**_of_client(os.environ), **shared}, part),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> ExitStatus:
        """Wait until the container has ended."""
        code = self._client.wait()
        if code < 0:
            # A killed client does not remove its container.
            self.kill()
        status = code if code >= 0 else 128 - code
        return ExitStatus(status, failed_rank(self._log.read_bytes()) if status else 0)

    def end(self, grace_seconds: float) -> None:
        """Send SIGTERM to the first process, as `docker stop` does, and kill all after the grace
        period.
        """
        asked = False

        def ended() -> bool:
            nonlocal asked
            if self._client.poll() is not None:
                return True
            # Repeated until the container has started.
            asked = asked or self._image.ask_to_end(self._name)
            return False

        wait_until(ended, grace_seconds)
        self.kill()

    def lose(self, ranks: Collection[int]) -> None:  # noqa: ARG002
        """Refuse: one container holds all nodes.

        Raises:
            AzureError: always.
        """
        raise user_error("A single node cannot be taken from a job in an image.")

    def kill(self) -> None:
        """Kill all processes immediately."""

        def ended() -> bool:
            if self._client.poll() is not None:
                return True
            # Repeated, because it may be about to start.
            self._engine.remove_container(self._name)
            return False

        wait_until(ended, _STUBBORN_SECONDS)
        self._reaper.kill(self._part)
        self._client.wait()
        self._engine.remove_container(self._name)


def shared_variables(programs: Sequence[RankProgram]) -> dict[str, str]:
    """Return the variables that all programs share and that the client can pass on unread."""
    items = set.intersection(*(set(program.environment.items()) for program in programs))
    return {name: value for name, value in sorted(items) if not _CLIENTS.fullmatch(name)}


def script(program: RankProgram, shared: Mapping[str, str]) -> str:
    """Return the shell script of a program: its own variables, working folder and log."""
    own = {name: value for name, value in program.environment.items() if name not in shared}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in own.items()]
    command = f"exec /bin/bash -c {shlex.quote(program.command)}"
    lines += [f"cd {_quoted(program.folder)}", f"{command} >>{_quoted(program.log)} 2>&1"]
    return "\n".join(["set -e", *lines, ""])


def failed_rank(log: bytes) -> int:
    """Return the rank that mpirun names at the end of its output; 0 if it names none."""
    matches = list(_FAILED.finditer(log))
    return int(matches[-1][1] or matches[-1][2]) if matches else 0


def _command(spec: JobSpec) -> list[str]:
    """Return the command to run in the folder of the scripts."""
    if not spec.distributed:
        return ["sh", "0"]
    hosts = ",".join(f"node{node}:{spec.processes}" for node in range(spec.nodes))
    size = str(spec.nodes * spec.processes)
    by_rank = ["sh", "-c", 'exec sh "$OMPI_COMM_WORLD_RANK"']
    return [*_MPIRUN, "--host", hosts, "-np", size, *by_rank]


def _of_client(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the client's environment without proxies, which Podman would pass to the container."""
    return {
        name: value for name, value in environment.items() if not name.lower().endswith("_proxy")
    }


def _write(folder: Path, programs: Sequence[RankProgram], shared: Mapping[str, str]) -> None:
    folder.mkdir()
    (folder / "reach").write_text(_REACH, encoding="utf-8")
    for rank, program in enumerate(programs):
        (folder / str(rank)).write_text(script(program, shared), encoding="utf-8")
        program.log.parent.mkdir(parents=True, exist_ok=True)
        program.log.touch()


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
