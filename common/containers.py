"""The program that makes images here and runs them: Docker, Podman or Buildah."""

import os
import re
import shutil
import stat
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from common.errors import UserError

MODEST: Final = Path(__file__).with_name("containers.conf")
TRUSTED: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian keeps the authorities that its programs trust."""


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


@dataclass(frozen=True)
class Recipe:
    """What an image is built from."""

    context: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Of the build (ARG)."""
    target: str | None = None
    """The stage to end with; none for the last."""
    fresh: bool = False
    """Whether every step is run, also where the one of an earlier build could be taken."""
    id_file: Path | None = None
    """Gets the image's identifier once it is made: Podman's status says nothing of a SIGTERM."""


class Containers(ABC):
    """What this project needs of such a program."""

    program: ClassVar[str]
    cached: ClassVar[re.Pattern[str]]
    """Matches a line of a build that says that a step was taken from an earlier one."""
    step: ClassVar[re.Pattern[str]]
    """Matches the line that begins a step; its group is the step."""

    @abstractmethod
    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        """The command that makes an image."""

    @abstractmethod
    def run_command(self, container: Container) -> list[str]:
        """The command that runs a program, and removes the container when it has ended."""

    @abstractmethod
    def remove_container(self, name: str) -> None:
        """Kill and remove a container, if it is there."""

    @abstractmethod
    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        """An image's files, not to be changed."""

    def has(self, image: str) -> bool:
        """Whether an image is here."""
        return self._says("inspect", "--type=image", image) is not None

    def size(self, image: str) -> int:
        """Bytes of an image's layers, not compressed.

        Raises:
            UserError: there is no such image.
        """
        text = self._says("image", "inspect", "--format={{.Size}}", image)
        if text is None:
            raise UserError(f"{image}: is no image of {self.program} here")
        return int(text)

    def pull(self, image: str) -> str | None:
        """Bring an image from its registry; what went wrong, if something did."""
        done = self._ask("pull", image)
        return (
            None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1]
        )

    def remove_image(self, image: str) -> None:
        """Remove an image, if it is here."""
        self._ask("rmi", "--force", image)

    @contextmanager
    def _exported(self, image: str) -> Iterator[Path]:
        """An image's files, in a folder of whoever asks."""
        created = self._says("create", image, "true")
        if created is None:
            raise UserError(f"{image}: is no image of {self.program} here")
        name = created.strip()
        try:
            with tempfile.TemporaryDirectory() as folder:
                with subprocess.Popen(
                    [self.program, "export", name], stdout=subprocess.PIPE
                ) as tar:
                    # Devices cannot be made without being root, and are not needed.
                    unpack = ["tar", "-x", "--exclude=dev/*", "-C", folder]
                    unpacked = subprocess.run(unpack, stdin=tar.stdout, check=False).returncode
                if tar.returncode or unpacked:
                    raise UserError(f"{image}: its files could not be exported")
                yield Path(folder)
        finally:
            self.remove_container(name)

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _says(self, *arguments: str) -> str | None:
        done = self._ask(*arguments)
        return done.stdout if done.returncode == 0 else None


class Docker(Containers):
    """Docker, with an engine that answers."""

    program = "docker"
    cached = re.compile(r"^#\d+ CACHED| ---> Using cache")
    step = re.compile(r"^(?:#\d+ \[(?!internal|auth)|Step )(\d+/\d+ : .*|[^\]]+\] .*)")

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        # By a variable, as a client without BuildKit does not know the option.
        return [
            *("env", "BUILDKIT_PROGRESS=plain", self.program, "build"),
            *_of_recipe(recipe),
            *(["--no-cache"] if recipe.fresh else []),
            *(f"--tag={image}", str(recipe.context)),
        ]

    def run_command(self, container: Container) -> list[str]:
        return [self.program, *_of_container(container)]

    def remove_container(self, name: str) -> None:
        self._ask("rm", "--force", "--volumes", name)

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        with self._exported(image) as folder:
            yield folder


class Podman(Containers):
    """Podman."""

    program = "podman"
    cached = re.compile(r"^--> Using cache")
    step = re.compile(r"^(?:\[\d+/\d+\] )?STEP (\d+/\d+: .*)")

    def __init__(self) -> None:
        self._prefix: list[str] | None = None

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        return [self.program, "build", *_of_buildah(recipe, image)]

    def run_command(self, container: Container) -> list[str]:
        if self._prefix is None:
            self._prefix = self._working_prefix(container.image)
        return [*self._prefix, self.program, *_of_container(container)]

    def remove_container(self, name: str) -> None:
        # Without the time it asks first, and waits for ten seconds.
        self._ask("rm", "--force", "--time=0", "--volumes", name)

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        if os.geteuid() != 0:
            # It would have to be entered as if by root, and that for all that is done there.
            with self._exported(image) as exported:
                yield exported
            return
        folder = self._says("image", "mount", image)
        if folder is None:
            raise UserError(f"{image}: is no image of {self.program} here")
        try:
            yield Path(folder.strip())
        finally:
            self._ask("image", "unmount", image)

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


class Buildah(Containers):
    """Buildah, which runs a program in the files of an image, without further walls."""

    program = "buildah"
    cached = Podman.cached
    step = Podman.step

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        return [self.program, "bud", *_of_buildah(recipe, image)]

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
        self._ask("rm", name)

    def size(self, image: str) -> int:
        with self.root(image) as root:
            return sum(_bytes(root))

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        created = self._says("from", "--pull-never", image)
        if created is None:
            raise UserError(f"{image}: is no image of {self.program} here")
        name = created.strip()
        try:
            folder = self._says("mount", name)
            if folder is None:
                raise UserError(f"{image}: buildah cannot mount it")
            yield Path(folder.strip())
        finally:
            self.remove_container(name)


def find() -> Containers:
    """The first of Docker, Podman and Buildah that this machine has.

    Raises:
        UserError: there is none, or only Docker's client without an engine.
    """
    notes = []
    if shutil.which(Docker.program):
        # The client asks for ever where the engine's socket is there and nobody answers.
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
        f"nothing here can build images: {'; '.join(notes)}. Start Docker's engine, or install"
        " Podman (on Debian and Ubuntu: sudo apt-get install podman)"
    )


def _bytes(folder: Path) -> Iterator[int]:
    """Of each file below a folder, one that has several names once."""
    seen = set()
    for path in folder.rglob("*"):
        found = path.lstat()
        if (found.st_dev, found.st_ino) not in seen:
            seen.add((found.st_dev, found.st_ino))
            yield found.st_size if stat.S_ISREG(found.st_mode) else 0


def _of_recipe(recipe: Recipe) -> list[str]:
    found = [f"--build-arg={name}={value}" for name, value in recipe.arguments.items()]
    found += [f"--target={recipe.target}"] if recipe.target else []
    return found + ([f"--iidfile={recipe.id_file}"] if recipe.id_file else [])


def _of_buildah(recipe: Recipe, image: str) -> list[str]:
    found = _of_recipe(recipe)
    # With walls of its own a build needs rights that some machines do not give.
    found += ["--isolation=chroot", "--layers=true", f"--tag={image}"]
    found += ["--no-cache"] if recipe.fresh else []
    authorities = os.environ.get("SSL_CERT_FILE")
    if authorities:
        # Of the build alone, as a proxy that opens what is encrypted is none of the image's.
        found.append(f"--volume={Path(authorities).resolve()}:{TRUSTED}:ro")
    return [*found, str(recipe.context)]


def _of_container(container: Container) -> list[str]:
    found = ["run", "--rm", f"--name={container.name}", f"--workdir={container.folder}"]
    found += [f"--shm-size={container.shared_memory}"]
    found += ["--network=host"] if container.host_network else []
    found += [f"--volume={_mount(mount)}" for mount in container.mounts]
    found += [f"--env={name}" for name in container.variables]
    found += [f"--user={container.user}"] if container.user else []
    return [*found, container.image, *container.program]


def _mount(mount: Mount) -> str:
    return f"{mount.source.absolute()}:{mount.target}{'' if mount.writable else ':ro'}"
