"""Programs in containers of this machine's engine: Docker, Podman or Buildah."""

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from common.errors import UserError

MODEST: Final = Path(__file__).with_name("containers.conf")
"""Settings for Podman on machines that may not raise limits."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine, seen inside."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Container:
    """A program in an image."""

    image: str
    program: Sequence[str]
    name: str
    """Of the container: no two have the same at a time."""
    mounts: Sequence[Mount] = ()
    variables: Sequence[str] = ()
    """Names alone: the values come from the environment of whoever starts it, so that no command
    line shows them."""
    folder: str = "/"
    """Where the program starts."""
    host_network: bool = False
    """Whether it has this machine's network and host name, or ones of its own."""
    shared_memory: str = "1g"
    user: str | None = None
    """Numbers of user and group, such as 1000:1000; none for the image's own."""


class ContainerEngine(ABC):
    """What this project needs of a program that runs containers."""

    program: ClassVar[str]

    @abstractmethod
    def run_command(self, container: Container) -> list[str]:
        """The command that runs a program, and removes the container when it has ended."""

    @abstractmethod
    def remove_container(self, name: str) -> None:
        """Kill and remove a container, if it is there."""

    def has(self, image: str) -> bool:
        """Whether an image is here."""
        return self.output("inspect", "--type=image", image) is not None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the engine's program to its end, whatever its status."""
        command = [self.program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def output(self, *arguments: str) -> str | None:
        """What the engine's program writes, or None if it fails."""
        done = self.run(*arguments)
        return done.stdout if done.returncode == 0 else None


class Docker(ContainerEngine):
    """Docker, with a daemon that answers."""

    program = "docker"

    def run_command(self, container: Container) -> list[str]:
        return [self.program, *_run_arguments(container)]

    def remove_container(self, name: str) -> None:
        self.run("rm", "--force", "--volumes", name)


class Podman(ContainerEngine):
    """Podman."""

    program = "podman"

    def __init__(self) -> None:
        self._prefix: list[str] | None = None

    def run_command(self, container: Container) -> list[str]:
        if self._prefix is None:
            self._prefix = self._working_prefix(container.image)
        return [*self._prefix, self.program, *_run_arguments(container)]

    def remove_container(self, name: str) -> None:
        # Without the time it asks first, and waits for ten seconds.
        self.run("rm", "--force", "--time=0", "--volumes", name)

    def _working_prefix(self, image: str) -> list[str]:
        """What has to stand before the command on this machine."""
        given = "CONTAINERS_CONF" in os.environ
        prefixes: list[list[str]] = [[]]
        if not given:
            prefixes.append(["env", f"CONTAINERS_CONF={MODEST}"])
        said = ""
        for prefix in prefixes:
            command = [*prefix, self.program, "run", "--rm", "--network=none", image, "true"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return prefix
            said = done.stderr.strip()
        raise UserError(
            f"podman cannot run {image} on this machine: {said}\nSettings that let it go into a"
            " containers.conf, which CONTAINERS_CONF names"
        )


class Buildah(ContainerEngine):
    """Buildah, which runs a program in the files of an image, without further walls."""

    program = "buildah"

    def run_command(self, container: Container) -> list[str]:
        # Its own name would not resolve, and Gloo ends with a segmentation fault then.
        host = ["--network=host"] if container.host_network else ["--hostname=localhost"]
        run = [self.program, "run", "--isolation=chroot", *host, f"--workingdir={container.folder}"]
        run += [f"--volume={_mount(mount)}" for mount in container.mounts]
        run += [f"--env={name}" for name in container.variables]
        run += [f"--user={container.user}"] if container.user else []
        script = (
            'trap "buildah rm $0 >/dev/null" EXIT; '
            'buildah from --pull-never --name "$0" "$1" >/dev/null && shift && "$@"'
        )
        program = [*run, container.name, "--", *container.program]
        return ["sh", "-c", script, container.name, container.image, *program]

    def remove_container(self, name: str) -> None:
        self.run("rm", name)


def find_engine() -> ContainerEngine:
    """The first of Docker, Podman and Buildah that this machine has.

    Raises:
        UserError: there is none, or only Docker's client without a daemon.
    """
    notes = []
    if shutil.which(Docker.program):
        # The client asks for ever where the daemon's socket is there and nobody answers.
        asked = ["timeout", "20", Docker.program, "version", "--format={{.Server.Version}}"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return Docker()
        notes.append("docker is installed, but no engine answers it")
    if shutil.which(Podman.program):
        return Podman()
    notes.append("podman is not installed")
    if shutil.which(Buildah.program) and os.geteuid() == 0:
        return Buildah()
    there = shutil.which(Buildah.program) is not None
    notes.append("buildah serves root alone here" if there else "buildah is not installed")
    raise UserError(
        f"nothing here can build or run images: {'; '.join(notes)}. Start Docker's engine, or"
        " install Podman (on Debian and Ubuntu: sudo apt-get install podman)"
    )


def _run_arguments(container: Container) -> list[str]:
    arguments = ["run", "--rm", f"--name={container.name}", f"--workdir={container.folder}"]
    arguments += [f"--shm-size={container.shared_memory}"]
    arguments += ["--network=host"] if container.host_network else []
    arguments += [f"--volume={_mount(mount)}" for mount in container.mounts]
    arguments += [f"--env={name}" for name in container.variables]
    arguments += [f"--user={container.user}"] if container.user else []
    return [*arguments, container.image, *container.program]


def _mount(mount: Mount) -> str:
    return f"{mount.source.absolute()}:{mount.target}{'' if mount.writable else ':ro'}"
