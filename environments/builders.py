"""What makes images with this machine's container engine, and opens them."""

import os
import re
import stat
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from common.containers import Buildah, ContainerEngine, Docker, Podman, find_engine
from common.errors import UserError

TRUSTED: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where Debian keeps the authorities that its programs trust."""


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


class Builder(ABC):
    """Images of one container engine."""

    cached: ClassVar[re.Pattern[str]]
    """Matches a line of a build that says that a step was taken from an earlier one."""
    step: ClassVar[re.Pattern[str]]
    """Matches the line that begins a step; its group is the step."""

    def __init__(self, engine: ContainerEngine) -> None:
        self.engine = engine

    @abstractmethod
    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        """The command that makes an image."""

    @abstractmethod
    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        """An image's files, not to be changed."""

    @property
    def program(self) -> str:
        """Name of the engine's program."""
        return self.engine.program

    def size(self, image: str) -> int:
        """Bytes of an image's layers, not compressed.

        Raises:
            UserError: there is no such image.
        """
        text = self.engine.output("image", "inspect", "--format={{.Size}}", image)
        if text is None:
            raise self._missing(image)
        return int(text)

    def pull(self, image: str) -> str | None:
        """Bring an image from its registry; what went wrong, if something did."""
        done = self.engine.run("pull", image)
        return (
            None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1]
        )

    def remove(self, image: str) -> None:
        """Remove an image, if it is here."""
        self.engine.run("rmi", "--force", image)

    def _missing(self, image: str) -> UserError:
        return UserError(f"{image}: is no image of {self.program} here")

    @contextmanager
    def _exported(self, image: str) -> Iterator[Path]:
        """An image's files, in a folder of whoever asks."""
        created = self.engine.output("create", image, "true")
        if created is None:
            raise self._missing(image)
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
            self.engine.remove_container(name)


class DockerBuilder(Builder):
    """Docker, with BuildKit or without."""

    cached = re.compile(r"^#\d+ CACHED| ---> Using cache")
    step = re.compile(r"^(?:#\d+ \[(?!internal|auth)|Step )(\d+/\d+ : .*|[^\]]+\] .*)")

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        # By a variable, as a client without BuildKit does not know the option.
        return [
            *("env", "BUILDKIT_PROGRESS=plain", self.program, "build"),
            *_recipe_arguments(recipe),
            *(["--no-cache"] if recipe.fresh else []),
            *(f"--tag={image}", str(recipe.context)),
        ]

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        with self._exported(image) as folder:
            yield folder


class PodmanBuilder(Builder):
    """Podman."""

    cached = re.compile(r"^--> Using cache")
    step = re.compile(r"^(?:\[\d+/\d+\] )?STEP (\d+/\d+: .*)")

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        return [self.program, "build", *_buildah_arguments(recipe, image)]

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        if os.geteuid() != 0:
            # It would have to be entered as if by root, and that for all that is done there.
            with self._exported(image) as exported:
                yield exported
            return
        folder = self.engine.output("image", "mount", image)
        if folder is None:
            raise self._missing(image)
        try:
            yield Path(folder.strip())
        finally:
            self.engine.run("image", "unmount", image)


class BuildahBuilder(Builder):
    """Buildah."""

    cached = PodmanBuilder.cached
    step = PodmanBuilder.step

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        return [self.program, "bud", *_buildah_arguments(recipe, image)]

    def size(self, image: str) -> int:
        with self.root(image) as root:
            return sum(_file_sizes(root))

    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        created = self.engine.output("from", "--pull-never", image)
        if created is None:
            raise self._missing(image)
        name = created.strip()
        try:
            folder = self.engine.output("mount", name)
            if folder is None:
                raise UserError(f"{image}: buildah cannot mount it")
            yield Path(folder.strip())
        finally:
            self.engine.remove_container(name)


BUILDERS: Final[Mapping[type[ContainerEngine], type[Builder]]] = {
    Docker: DockerBuilder,
    Podman: PodmanBuilder,
    Buildah: BuildahBuilder,
}


def find_builder() -> Builder:
    """What makes images with the first engine that this machine has.

    Raises:
        UserError: there is none, or only Docker's client without a daemon.
    """
    engine = find_engine()
    return BUILDERS[type(engine)](engine)


def _file_sizes(folder: Path) -> Iterator[int]:
    """Of each file below a folder, one that has several names once."""
    seen = set()
    for path in folder.rglob("*"):
        status = path.lstat()
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield status.st_size if stat.S_ISREG(status.st_mode) else 0


def _recipe_arguments(recipe: Recipe) -> list[str]:
    arguments = [f"--build-arg={name}={value}" for name, value in recipe.arguments.items()]
    arguments += [f"--target={recipe.target}"] if recipe.target else []
    return arguments + ([f"--iidfile={recipe.id_file}"] if recipe.id_file else [])


def _buildah_arguments(recipe: Recipe, image: str) -> list[str]:
    arguments = _recipe_arguments(recipe)
    # With walls of its own a build needs rights that some machines do not give.
    arguments += ["--isolation=chroot", "--layers=true", f"--tag={image}"]
    arguments += ["--no-cache"] if recipe.fresh else []
    authorities = os.environ.get("SSL_CERT_FILE")
    if authorities:
        # Of the build alone, as a proxy that opens what is encrypted is none of the image's.
        arguments.append(f"--volume={Path(authorities).resolve()}:{TRUSTED}:ro")
    return [*arguments, str(recipe.context)]
