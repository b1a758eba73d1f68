"""The processes of a job in an image: one container, where mpirun starts the ranks."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.containers import Container, Mount
from rehearsal.machine_learning.job_spec import JobSpec
from rehearsal.machine_learning.ranks import Ended, Program
from rehearsal.machine_learning.runtime import Runtime, name_of
from rehearsal.processes import Guard

_POLL_SECONDS: Final = 0.05
_STUBBORN_SECONDS: Final = 30.0
"""Until the client of a container that cannot be removed is ended itself."""
_CLIENTS: Final = re.compile(r"PATH|HOME|TMPDIR|(LD|XDG|DOCKER|CONTAINERS?|STORAGE|DBUS)_\w*")
"""Variables that the client which starts a container reads as its own."""
_FAILED: Final = re.compile(rb"Process name: \[\[\d+,\d+\],(\d+)\]|process rank (\d+) with PID")
"""How mpirun names the rank that ended it, by a status or by a signal."""
_MPIRUN: Final = (
    *("mpirun", "--mca", "plm_rsh_agent", "sh ./reach"),
    *("--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_if_include", "lo"),
)
"""Nothing about binding or root: what the image sets must do, as it must in Azure."""
_REACH: Final = """
export TMPDIR="/tmp/$1"
mkdir -p "$TMPDIR"
shift
exec sh -c "$*"
"""
"""In place of SSH, as all nodes are one container. Their daemons would make the same folders at the
same time."""


class Contained:
    """Processes of one job, in a container."""

    def __init__(
        self,
        runtime: Runtime,
        spec: JobSpec,
        programs: Sequence[Program],
        mounts: Sequence[Mount],
        guard: Guard,
        part: str,
    ) -> None:
        """Start them.

        Args:
            runtime: what runs containers, and their image.
            spec: the job.
            programs: one a rank.
            mounts: all that they see of this machine; the folder of the first is this job's alone.
            guard: ends them if the owner dies.
            part: of the guard's mark, for these alone.
        """
        self._containers, self._runtime, self._guard = runtime.containers, runtime, guard
        self._part, self._log = part, programs[0].log
        self._name = name_of(guard.mark, part.strip("/"))
        scripts = mounts[0].source / "ranks"
        shared = of_all(programs)
        if runtime.user is not None:
            # The image does not know it, and programs ask for its name.
            shared |= {"USER": "user"}
        _write(scripts, programs, shared)
        container = Container(
            image=runtime.image,
            program=_command(spec),
            name=self._name,
            mounts=mounts,
            variables=sorted(guard.marked(shared, part)),
            folder=str(scripts),
            host_network=True,
            user=runtime.user,
        )
        # Mpirun's own words, and the client's, are after those of rank 0.
        with self._log.open("ab") as log:
            self._client = subprocess.Popen(
                self._containers.run_command(container),
                env=guard.marked({**_of_client(os.environ), **shared}, part),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> Ended:
        """Wait until the container has ended."""
        code = self._client.wait()
        if code < 0:
            # Without its client, nobody removes it.
            self.kill()
        status = code if code >= 0 else 128 - code
        return Ended(status, failed_rank(self._log.read_bytes()) if status else 0)

    def end(self, grace_seconds: float) -> None:
        """Ask the first process to end, as `docker stop` does, and kill all if it does not."""
        deadline, asked = time.monotonic() + grace_seconds, False
        while self._client.poll() is None and time.monotonic() < deadline:
            # Not before it has started.
            asked = asked or self._runtime.ask_to_end(self._name)
            time.sleep(_POLL_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill all, at once."""
        deadline = time.monotonic() + _STUBBORN_SECONDS
        while self._client.poll() is None and time.monotonic() < deadline:
            # Again, as it may be about to start.
            self._containers.remove_container(self._name)
            time.sleep(_POLL_SECONDS)
        self._guard.kill(self._part)
        self._client.wait()
        self._containers.remove_container(self._name)


def of_all(programs: Sequence[Program]) -> dict[str, str]:
    """Variables that all programs share and a client can hand on, without reading them."""
    items = set.intersection(*(set(program.environment.items()) for program in programs))
    return {name: value for name, value in sorted(items) if not _CLIENTS.fullmatch(name)}


def script(program: Program, shared: Mapping[str, str]) -> str:
    """What a shell does to become a program: what is its own of variables, folder and log."""
    own = {name: value for name, value in program.environment.items() if name not in shared}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in own.items()]
    command = f"exec /bin/bash -c {shlex.quote(program.command)}"
    lines += [f"cd {_quoted(program.folder)}", f"{command} >>{_quoted(program.log)} 2>&1"]
    return "\n".join(["set -e", *lines, ""])


def failed_rank(log: bytes) -> int:
    """The rank that mpirun's last words name; 0 if they name none."""
    found = list(_FAILED.finditer(log))
    return int(found[-1][1] or found[-1][2]) if found else 0


def _command(spec: JobSpec) -> list[str]:
    """In the folder of the scripts."""
    if not spec.distributed:
        return ["sh", "0"]
    hosts = ",".join(f"node{node}:{spec.processes}" for node in range(spec.nodes))
    size = str(spec.nodes * spec.processes)
    by_rank = ["sh", "-c", 'exec sh "$OMPI_COMM_WORLD_RANK"']
    return [*_MPIRUN, "--host", hosts, "-np", size, *by_rank]


def _of_client(environment: Mapping[str, str]) -> dict[str, str]:
    """Without proxies, which Podman would hand on to the container by itself."""
    return {
        name: value for name, value in environment.items() if not name.lower().endswith("_proxy")
    }


def _write(folder: Path, programs: Sequence[Program], shared: Mapping[str, str]) -> None:
    folder.mkdir()
    (folder / "reach").write_text(_REACH, encoding="utf-8")
    for rank, program in enumerate(programs):
        (folder / str(rank)).write_text(script(program, shared), encoding="utf-8")
        program.log.parent.mkdir(parents=True, exist_ok=True)
        program.log.touch()


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
