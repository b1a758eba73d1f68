"""The code of a job: a folder that holds the trainer, what it shares, and nothing else.

Whatever else is in the repository stays here: Azure ML keeps every snapshot, and shows it to
everyone who may see the job.
"""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import SnapshotError

PACKAGES = ("common", "trainer")
DIGEST_LENGTH = 16
"""Hexadecimal digits; 64 bits tell all versions of a project apart."""

_LEFT_OUT = {"__pycache__"}
_COMPILED = {".pyc", ".pyo", ".so"}


@dataclass(frozen=True)
class Snapshot:
    """A staged folder."""

    path: Path
    files: tuple[str, ...]
    """Below `path`, in order."""
    digest: str
    """Of names and contents; the same wherever and whenever it is staged."""


def stage(repository: Path, target: Path) -> Snapshot:
    """Copy the packages into an empty or new folder.

    Args:
        repository: folder that holds `common/` and `trainer/`.
        target: folder to fill; what `code` of a job names.

    Raises:
        SnapshotError: a package is not there, holds a link, or the folder is not empty.
    """
    if target.exists() and any(target.iterdir()):
        raise SnapshotError(f"{target}: is not empty; stage a snapshot into a new folder")
    files = package_files(repository)
    for name, source in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    return Snapshot(target, tuple(files), digest({n: (target / n).read_bytes() for n in files}))


def package_files(repository: Path) -> dict[str, Path]:
    """Files of the packages by their names in a snapshot, in order.

    Raises:
        SnapshotError: a package is not there, or holds a link.
    """
    files: dict[str, Path] = {}
    for package in (repository / name for name in PACKAGES):
        if not (package / "__init__.py").is_file():
            raise SnapshotError(f"{package}: is no Python package; run this in the repository")
        files |= files_below(package, repository)
    return {name: path for name, path in files.items() if path.suffix not in _COMPILED}


def files_below(folder: Path, root: Path) -> dict[str, Path]:
    """All files of a folder but hidden ones and Python's caches, by their names below `root`.

    Raises:
        SnapshotError: one is a link, which might lead out of the folder.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts):
            continue
        if path.is_symlink():
            raise SnapshotError(f"{path}: is a link; put the file itself there")
        if path.is_file():
            found[path.relative_to(root).as_posix()] = path
    return found


def digest(contents: Mapping[str, bytes]) -> str:
    """Of files by their names: changes with any name or byte, and with nothing else."""
    whole = hashlib.sha256()
    for name in sorted(contents):
        for part in (name.encode(), contents[name]):
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:DIGEST_LENGTH]
