"""The code of a job: the trainer, what it shares, and nothing else.

Whatever else is in the repository stays here: Azure ML keeps every snapshot, and shows it to
everyone who may see the job.
"""

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from jobs.errors import SnapshotError

PACKAGES = ("common", "trainer")
DIGEST_LENGTH = 16
"""Hexadecimal digits; 64 bits tell all versions of a project apart."""

_LEFT_OUT = {"__pycache__"}
_COMPILED = {".pyc", ".pyo", ".so"}


@dataclass(frozen=True)
class CodeSnapshot:
    """The code as it was when it was read."""

    contents: Mapping[str, bytes]
    """By name below the folder that a job runs in."""

    @cached_property
    def digest(self) -> str:
        """Of names and contents; the same wherever and whenever it is read."""
        return digest(self.contents)

    def write(self, target: Path) -> None:
        """Fill an empty or new folder.

        Raises:
            SnapshotError: the folder is not empty.
        """
        if target.exists() and any(target.iterdir()):
            raise SnapshotError(f"{target}: is not empty; write a snapshot into a new folder")
        write_files(target, self.contents)


def read_snapshot(repository: Path) -> CodeSnapshot:
    """Read the packages.

    Args:
        repository: folder that holds `common/` and `trainer/`.

    Raises:
        SnapshotError: a package is not there, or holds a link.
    """
    files: dict[str, Path] = {}
    for package in (repository / name for name in PACKAGES):
        if not (package / "__init__.py").is_file():
            raise SnapshotError(f"{package}: is no Python package; run this in the repository")
        files |= files_below(package, repository)
    return CodeSnapshot(
        {name: path.read_bytes() for name, path in files.items() if path.suffix not in _COMPILED}
    )


def git_properties(repository: Path) -> dict[str, str]:
    """What Git says of the code, by the names under which Azure ML and MLflow show it.

    Returns:
        Nothing outside of a work tree; an address that holds a password is left out.
    """
    commit = _git(repository, "rev-parse", "HEAD")
    if not commit:
        return {}
    changes = _git(repository, "status", "--porcelain", ".")
    url = _git(repository, "remote", "get-url", "origin")
    known = {
        "mlflow.source.git.commit": commit,
        "mlflow.source.git.branch": _git(repository, "symbolic-ref", "--short", "HEAD"),
        "mlflow.source.git.repoURL": None if url and urlsplit(url).password else url,
        "azureml.git.dirty": None if changes is None else str(bool(changes)),
    }
    return {name: value for name, value in known.items() if value}


def files_below(folder: Path, root: Path) -> dict[str, Path]:
    """All files of a folder but hidden ones and Python's caches, by their names below `root`.

    Raises:
        SnapshotError: one is a link, which might lead out of the folder.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts):
            continue
        if path.is_symlink():
            raise SnapshotError(f"{path}: is a link; put the file itself there")
        if path.is_file():
            files[path.relative_to(root).as_posix()] = path
    return files


def digest(contents: Mapping[str, bytes]) -> str:
    """Of files by their names: changes with any name or byte, and with nothing else."""
    whole = hashlib.sha256()
    for name in sorted(contents):
        for part in (name.encode(), contents[name]):
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:DIGEST_LENGTH]


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files by their names below a folder."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _git(repository: Path, *words: str) -> str | None:
    """What Git prints; None if it is not installed or refuses."""
    try:
        done = subprocess.run(
            ["git", *words],  # noqa: S607
            cwd=repository,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
