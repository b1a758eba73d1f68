"""Build images with this machine's container engine, and read their files."""

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
"""Path of Debian's CA certificates."""


@dataclass(frozen=True)
class Recipe:
    """Inputs and options of a build."""

    context: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Build arguments (ARG)."""
    fresh: bool = False
    """Whether to run every step instead of using cached ones."""
    id_file: Path | None = None
    """File that receives the image's id once it is built, as Podman's exit status does not reveal a
    SIGTERM."""


class Builder(ABC):
    """Builds and reads images with one container engine."""

    cached: ClassVar[re.Pattern[str]]
    """Matches the output line of a cached step."""
    step: ClassVar[re.Pattern[str]]
    """Matches the first output line of a step; its group is the step."""

    def __init__(self, engine: ContainerEngine) -> None:
        self.engine = engine

    @abstractmethod
    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        """Return the command that builds an image."""

    @abstractmethod
    @contextmanager
    def root(self, image: str) -> Iterator[Path]:
        """Provide a folder with an image's files, which must not be changed."""

    @property
    def program(self) -> str:
        """Name of the engine's command."""
        return self.engine.program

    def size(self, image: str) -> int:
        """Return the uncompressed bytes of an image's layers.

        Raises:
            UserError: There is no such image.
        """
        text = self.engine.output("image", "inspect", "--format={{.Size}}", image)
        if text is None:
            raise self._missing(image)
        return int(text)

    def pull(self, image: str) -> str | None:
        """Pull an image from its registry; return what went wrong, or None."""
        completed = self.engine.run("pull", image)
        return (
            None
            if completed.returncode == 0
            else (completed.stderr.strip().splitlines() or ["failed"])[-1]
        )

    def remove(self, image: str) -> None:
        """Remove an image, if it exists on this machine."""
        self.engine.run("rmi", "--force", image)

    def _missing(self, image: str) -> UserError:
        return UserError(f"{image}: {self.program} has no such image on this machine; build it")

    @contextmanager
    def _exported(self, image: str) -> Iterator[Path]:
        """Export an image's files to a temporary folder."""
        created = self.engine.output("create", image, "true")
        if created is None:
            raise self._missing(image)
        name = created.strip()
        try:
            with tempfile.TemporaryDirectory() as folder:
                with subprocess.Popen(
                    [self.program, "export", name], stdout=subprocess.PIPE
                ) as tar:
                    # Creating devices requires root, and they are not needed.
                    unpack = ["tar", "-x", "--exclude=dev/*", "-C", folder]
                    unpacked = subprocess.run(unpack, stdin=tar.stdout, check=False).returncode
                if tar.returncode or unpacked:
                    raise UserError(f"{image}: its files could not be exported")
                yield Path(folder)
        finally:
            self.engine.remove_container(name)


class DockerBuilder(Builder):
    """Docker, with or without BuildKit."""

    cached = re.compile(r"^#\d+ CACHED| ---> Using cache")
    step = re.compile(r"^(?:#\d+ \[(?!internal|auth)|Step )(\d+/\d+ : .*|[^\]]+\] .*)")

    def build_command(self, recipe: Recipe, image: str) -> list[str]:
        # A variable, as a client without BuildKit does not know the option.
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
            # Mounting would require `podman unshare` around everything that reads the files.
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
    """Create a builder with the first container engine on this machine.

    Raises:
        UserError: There is none, or only Docker's client without a daemon.
    """
    engine = find_engine()
    return BUILDERS[type(engine)](engine)


def _file_sizes(folder: Path) -> Iterator[int]:
    """Iterate over the sizes of all files in a folder, counting hard links once."""
    seen = set()
    for path in folder.rglob("*"):
        status = path.lstat()
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield status.st_size if stat.S_ISREG(status.st_mode) else 0


def _recipe_arguments(recipe: Recipe) -> list[str]:
    arguments = [f"--build-arg={name}={value}" for name, value in recipe.arguments.items()]
    return arguments + ([f"--iidfile={recipe.id_file}"] if recipe.id_file else [])


def _buildah_arguments(recipe: Recipe, image: str) -> list[str]:
    arguments = _recipe_arguments(recipe)
    # Stronger isolation requires privileges that some machines do not grant.
    arguments += ["--isolation=chroot", "--layers=true", f"--tag={image}"]
    arguments += ["--no-cache"] if recipe.fresh else []
    authorities = os.environ.get("SSL_CERT_FILE")
    if authorities:
        # For the build only: the CA of a TLS-inspecting proxy must not be in the image.
        arguments.append(f"--volume={Path(authorities).resolve()}:{TRUSTED}:ro")
    return [*arguments, str(recipe.context)]
