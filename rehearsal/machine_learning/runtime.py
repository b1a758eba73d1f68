"""What runs jobs in an image, where they are not to be processes of this machine.

Standard library only: the guard, which outlives its owner, uses it as well.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from common.containers import Container, ContainerEngine, Docker, Podman, find_engine
from common.errors import UserError
from rehearsal.errors import RehearsalError

_KINDS: Final[Mapping[str, type[ContainerEngine]]] = {
    kind.program: kind for kind in (Docker, Podman)
}


@dataclass(frozen=True)
class Runtime:
    """A program that runs containers, and the image of all jobs."""

    containers: ContainerEngine
    image: str
    user: str | None = None
    """That jobs are in a container, where it must not be the image's."""

    def ask_to_end(self, name: str) -> bool:
        """Send SIGTERM to the first process of a container; whether there was one."""
        command = [self.containers.program, "kill", "--signal=TERM", name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def open_image(image: str) -> Runtime:
    """What runs jobs in an image of this machine.

    Raises:
        RehearsalError: nothing here can, or the image is not here.
    """
    try:
        containers = find_engine()
        if containers.program not in _KINDS:
            raise RehearsalError(
                f"{image}: {containers.program} builds images, but cannot end what it runs; install"
                " Podman (on Debian and Ubuntu: sudo apt-get install podman)"
            )
        if not containers.has(image):
            raise RehearsalError(
                f"{image}: is no image of {containers.program} here; `make images` builds"
                " localhost/trainer-cpu:latest"
            )
        # Now, as Podman may find that nothing runs on this machine.
        containers.run_command(Container(image, ["true"], "rehearsal"))
    except UserError as error:
        raise RehearsalError(f"{image}: cannot be run: {error}") from error
    return Runtime(containers, image, _user(containers))


def _user(containers: ContainerEngine) -> str | None:
    """This process's own, where root's files could not be removed by whom they are made for."""
    if containers.program != Docker.program or os.geteuid() == 0:
        return None
    command = [containers.program, "info", "--format={{.SecurityOptions}}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    # There root is this user.
    return None if "rootless" in said else f"{os.geteuid()}:{os.getegid()}"


def name_of(mark: str, part: str) -> str:
    """Name of a container that belongs to the owner of a mark."""
    return f"rehearsal-{mark}-{part}"


def remove_all(program: str, mark: str) -> None:
    """Kill and remove all containers of the owner of a mark."""
    command = [program, "ps", "--all", "--format={{.Names}}", f"--filter=name={name_of(mark, '')}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    for name in listed.stdout.split():
        _KINDS[program]().remove_container(name)
