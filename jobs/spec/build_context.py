"""The build contexts of the images that jobs run in, and of the one that answers at endpoints.

The version of an image is a hash of all files that its build reads, so an unchanged image is found
in the workspace and not built again. Markdown files are not part of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from jobs.errors import SnapshotError
from jobs.spec.code_snapshot import digest, files_below, write_files

Image = Literal["gpu", "cpu", "serving"]

LOCK: Final = "requirements.txt"
"""Name of the lock file in a build context, which the Dockerfile copies."""

SHARED: Final = "shared"
"""Name of the folder in environments/ whose files are in the build contexts of jobs' images."""

SCORING: Final = "serving"
"""Name of the folder with the scoring script, whose files are in the context of image serving."""

TREATMENT: Final = "trainer/data/pixels/treatment.py"
"""The module that decides how a file becomes pixels, which the scoring script imports."""

_NOTES = {".md"}


@dataclass(frozen=True)
class BuildContext:
    """The files that an image is built from."""

    image: Image
    contents: Mapping[str, bytes]
    """Contents by path relative to the context's folder."""

    @property
    def name(self) -> str:
        """Name of the registered environment."""
        return f"trainer-{self.image}"

    @property
    def version(self) -> str:
        """Version of the registered environment: a hash of the contents."""
        return digest(self.contents)

    @property
    def reference(self) -> str:
        """NAME:VERSION."""
        return f"{self.name}:{self.version}"

    def write(self, folder: Path) -> None:
        """Write the files to a folder."""
        write_files(folder, self.contents)


def build_context(repository: Path, image: Image) -> BuildContext:
    """Read environments/IMAGE, the files that are not its own, and the image's lock file.

    Raises:
        SnapshotError: The Dockerfile or the lock file is missing, or a file is a symbolic link.
    """
    folder, lock = repository / "environments" / image, repository / "locks" / f"{image}.txt"
    common = repository / SCORING if image == SCORING else folder.with_name(SHARED)
    files = {
        name: path
        for source in (common, folder)
        for name, path in files_below(source, source).items()
        if path.suffix not in _NOTES
    }
    if "Dockerfile" not in files:
        raise SnapshotError(f"{folder / 'Dockerfile'}: is missing, so the image cannot be built")
    if not lock.is_file():
        raise SnapshotError(f"{lock}: is missing; `make lock` writes it")
    if LOCK in files:
        raise SnapshotError(
            f"{files[LOCK]}: must not exist, as the image's lock file is {lock}; delete it"
        )
    if image == SCORING:
        files[TREATMENT] = repository / TREATMENT
    contents = {name: path.read_bytes() for name, path in files.items()}
    return BuildContext(image, {**contents, LOCK: lock.read_bytes()})
