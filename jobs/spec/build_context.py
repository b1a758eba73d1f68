"""The images that jobs run in: a build context each, whose content is its version.

The version is a hash of what the build reads, so what has not changed is found in the workspace
and not built again. Notes about an image are not part of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from jobs.errors import SnapshotError
from jobs.spec.code_snapshot import digest, files_below, write_files

Image = Literal["gpu", "cpu"]

LOCK: Final = "requirements.txt"
"""Name of the lock inside a build context, for the Dockerfile to copy."""

_NOTES = {".md"}


@dataclass(frozen=True)
class BuildContext:
    """What an image is built from."""

    image: Image
    contents: Mapping[str, bytes]
    """By name below the context's folder."""

    @property
    def name(self) -> str:
        """Of the registered environment."""
        return f"trainer-{self.image}"

    @property
    def version(self) -> str:
        """Of the registered environment: a hash of the contents."""
        return digest(self.contents)

    @property
    def reference(self) -> str:
        """NAME:VERSION."""
        return f"{self.name}:{self.version}"

    def write(self, folder: Path) -> None:
        """Fill a folder for the upload."""
        write_files(folder, self.contents)


def build_context(repository: Path, image: Image) -> BuildContext:
    """Read environments/IMAGE and its lock.

    Args:
        repository: folder that holds `environments/` and `locks/`.
        image: which one.

    Raises:
        SnapshotError: the Dockerfile or the lock is missing, or there is a link among the files.
    """
    folder, lock = repository / "environments" / image, repository / "locks" / f"{image}.txt"
    files = {
        name: path
        for name, path in files_below(folder, folder).items()
        if path.suffix not in _NOTES
    }
    if "Dockerfile" not in files:
        raise SnapshotError(f"{folder / 'Dockerfile'}: is missing, so there is no image to build")
    if not lock.is_file():
        raise SnapshotError(f"{lock}: is missing; `make lock` writes it")
    if LOCK in files:
        raise SnapshotError(f"{files[LOCK]}: the lock of this image is {lock}; delete this file")
    contents = {name: path.read_bytes() for name, path in files.items()}
    return BuildContext(image, {**contents, LOCK: lock.read_bytes()})
