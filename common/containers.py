"""Run programs in containers with this machine's engine: Docker, Podman or Buildah."""

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
"""Podman configuration for machines where resource limits cannot be raised."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of the host that is mounted in a container."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True)
class Container:
    """A program to run in an image."""

    image: str
    program: Sequence[str]
    name: str
    """Unique name of the container."""
    mounts: Sequence[Mount] = ()
    variables: Sequence[str] = ()
    """Names of environment variables. Their values come from the environment of the calling
    process, so that no command line shows them."""
    folder: str = "/"
    """Working directory of the program."""
    host_network: bool = False
    """Whether the container shares the host's network and host name."""
    user: str | None = None
    """User and group ids, such as 1000:1000; None is the image's user."""


class ContainerEngine(ABC):
    """Interface to a program that runs containers."""

    program: ClassVar[str]

    @abstractmethod
    def run_command(self, container: Container) -> list[str]:
        """Return the command that runs a program and removes the container when it ends."""

    @abstractmethod
    def remove_container(self, name: str) -> None:
        """Kill and remove a container, if it exists."""

    def has(self, image: str) -> bool:
        """Whether an image exists on this machine."""
        return self.output("inspect", "--type=image", image) is not None

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the engine, whatever its exit status."""
        command = [self.program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def output(self, *arguments: str) -> str | None:
        """Return the output of a command of the engine, or None if it fails."""
        done = self.run(*arguments)
        return done.stdout if done.returncode == 0 else None


class Docker(ContainerEngine):
    """Docker with a running daemon."""

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
        # Without --time=0, Podman sends SIGTERM first and waits for ten seconds.
        self.run("rm", "--force", "--time=0", "--volumes", name)

    def _working_prefix(self, image: str) -> list[str]:
        """Return the prefix with which `podman run` works on this machine.

        Raises:
            UserError: It works neither with Podman's own configuration nor with `containers.conf`.
        """
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
            f"podman cannot run {image} on this machine: {said}\nput settings with which it can"
            " into a containers.conf, and set CONTAINERS_CONF to its path"
        )


class Buildah(ContainerEngine):
    """Buildah, which runs a program in the file system of an image with chroot isolation only."""

    program = "buildah"

    def run_command(self, container: Container) -> list[str]:
        # The container's own host name does not resolve, which makes Gloo crash.
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
    """Find the first of Docker, Podman and Buildah on this machine.

    Raises:
        UserError: There is none, or only Docker's client without a daemon.
    """
    notes = []
    if shutil.which(Docker.program):
        # The client blocks forever if the daemon's socket exists and the daemon does not respond.
        asked = ["timeout", "20", Docker.program, "version", "--format={{.Server.Version}}"]
        if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
            return Docker()
        notes.append("docker is installed, but its daemon does not respond")
    if shutil.which(Podman.program):
        return Podman()
    notes.append("podman is not installed")
    if shutil.which(Buildah.program) and os.geteuid() == 0:
        return Buildah()
    buildah = shutil.which(Buildah.program) is not None
    notes.append("buildah requires root here" if buildah else "buildah is not installed")
    raise UserError(
        f"no container engine found: {'; '.join(notes)}. Start Docker's daemon, or install Podman"
        " (on Debian and Ubuntu: sudo apt-get install podman)"
    )


def _run_arguments(container: Container) -> list[str]:
    arguments = ["run", "--rm", f"--name={container.name}", f"--workdir={container.folder}"]
    arguments += ["--shm-size=1g"]
    arguments += ["--network=host"] if container.host_network else []
    arguments += [f"--volume={_mount(mount)}" for mount in container.mounts]
    arguments += [f"--env={name}" for name in container.variables]
    arguments += [f"--user={container.user}"] if container.user else []
    return [*arguments, container.image, *container.program]


def _mount(mount: Mount) -> str:
    return f"{mount.source.absolute()}:{mount.target}{'' if mount.writable else ':ro'}"
