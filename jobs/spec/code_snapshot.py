"""The code of a job: the packages `trainer` and `common`, the Python files of the package with the
run's own network, if it has one, and nothing else.

No other file of the repository is uploaded: Azure ML keeps every snapshot, and shows it to everyone
who has access to the job.
"""

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from common import source_files
from jobs.errors import SnapshotError
from jobs.spec.secret_texts import public_address

PACKAGES = ("common", "trainer")
DIGEST_LENGTH = 16
"""Hexadecimal digits of a digest; 64 bits distinguish all versions of a project."""

_NOT_CODE = {".pyc", ".pyo", ".so", ".md"}
"""Suffixes of compiled files and of pages."""


@dataclass(frozen=True)
class CodeSnapshot:
    """The code at the time it was read."""

    contents: Mapping[str, bytes]
    """Contents by path relative to the job's working directory."""

    @cached_property
    def digest(self) -> str:
        """Digest of names and contents, independent of where and when they are read."""
        return digest(self.contents)

    def write(self, target: Path) -> None:
        """Write the code to an empty or new folder.

        Raises:
            SnapshotError: The folder is not empty.
        """
        if target.exists() and any(target.iterdir()):
            raise SnapshotError(f"{target}: is not empty; write the snapshot to a new folder")
        write_files(target, self.contents)


def read_snapshot(repository: Path, builder: str | None = None) -> CodeSnapshot:
    """Read the packages.

    Args:
        repository: Folder that contains `common/` and `trainer/`.
        builder: Own network of the run, as package.module:function.

    Raises:
        SnapshotError: A package or the builder's module is missing, or contains a symbolic link.
    """
    files: dict[str, Path] = {}
    for package in (repository / name for name in PACKAGES):
        if not (package / "__init__.py").is_file():
            raise SnapshotError(f"{package}: is not a Python package; run this in the repository")
        files |= files_below(package, repository)
    if builder is not None:
        files |= _package_of(builder, repository)
    return CodeSnapshot(
        {name: path.read_bytes() for name, path in files.items() if path.suffix not in _NOT_CODE}
    )


def _package_of(builder: str, repository: Path) -> dict[str, Path]:
    """Find the Python files of the package, or the single module, that contains a builder."""
    parts = builder.partition(":")[0].split(".")
    module = repository.joinpath(*parts)
    if not any(file.is_file() for file in (module.with_suffix(".py"), module / "__init__.py")):
        raise SnapshotError(
            f"--model.builder: {builder}: {module.with_suffix('.py')} does not exist; put it into"
            f" a folder in {repository}, whose Python files a job takes with it"
        )
    return _without_links(source_files.package_files(parts[0], repository))


def git_properties(repository: Path) -> dict[str, str]:
    """Return commit, branch, remote URL and state of the code, under the names of MLflow and Azure
    ML.

    Returns:
        The properties; empty outside of a work tree. The URL has no user, password or query, which
        may be secrets.
    """
    commit = _git(repository, "rev-parse", "HEAD")
    if not commit:
        return {}
    changes = _git(repository, "status", "--porcelain", ".")
    url = _git(repository, "remote", "get-url", "origin")
    known = {
        "mlflow.source.git.commit": commit,
        "mlflow.source.git.branch": _git(repository, "symbolic-ref", "--short", "HEAD"),
        "mlflow.source.git.repoURL": public_address(url) if url else None,
        "azureml.git.dirty": None if changes is None else str(bool(changes)),
    }
    return {name: value for name, value in known.items() if value}


def files_below(folder: Path, root: Path) -> dict[str, Path]:
    """Find all files of a folder except hidden ones and Python's caches, by their paths relative to
    `root`.

    Raises:
        SnapshotError: A file is a symbolic link, which may lead out of the folder.
    """
    return _without_links(source_files.files_below(folder, root))


def _without_links(files: dict[str, Path]) -> dict[str, Path]:
    for path in files.values():
        if path.is_symlink():
            raise SnapshotError(f"{path}: is a symbolic link; replace it with the file itself")
    return files


def digest(contents: Mapping[str, bytes]) -> str:
    """Return the digest of files, which depends on their names and contents only."""
    whole = hashlib.sha256()
    for name in sorted(contents):
        for part in (name.encode(), contents[name]):
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:DIGEST_LENGTH]


def write_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files to a folder by their relative paths."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _git(repository: Path, *words: str) -> str | None:
    """Return the output of a Git command, or None if Git is not installed or fails."""
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
