"""Local files to upload: find them, compare them with their manifest, read and hash each once."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import xxhash

from common.errors import UserError
from common.text import listing
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.errors import DataError

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

LONGEST_NAME: Final = 1024
"""Maximum characters of a blob's name (Azure, "Naming and referencing containers, blobs")."""
VERSION_LENGTH: Final = 16
"""Hexadecimal digits of a version, as in a manifest's version."""


class LocalError(UserError):
    """Files cannot be uploaded or written, or have the wrong content."""

    exit_code = 3


class ChangedError(LocalError):
    """A file changed while it was read."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file as it was when the folder was scanned."""

    name: str
    """Path relative to the folder, with slashes."""
    path: Path
    size: int
    stamp: tuple[int, ...]
    """Size, modification time and inode, which change whenever the file does."""
    xxh128: str | None = None
    """Checksum of the file in the folder's manifest, or None."""

    def blocks(self, size: int, md5: "Hash") -> Iterator[bytes]:
        """Read the content in blocks of a size, and hash it; check the hash at the end.

        Raises:
            ChangedError: The file has changed since it was found, or changes while it is read.
            LocalError: The file cannot be read, or does not match its checksum in the manifest.
        """
        left, xxh128 = self.size, xxhash.xxh3_128()
        try:
            with self.path.open("rb") as file:
                self._compare(_stamp(os.fstat(file.fileno())))
                while content := file.read(min(size, left)):
                    left -= len(content)
                    md5.update(content)
                    if self.xxh128 is not None:
                        xxh128.update(content)
                    yield content
                # By its name: a file may also be replaced as a whole.
                self._compare(_stamp(self.path.stat()) if not left else ())
        except OSError as error:
            raise LocalError(f"{self.path}: cannot be read ({error.strerror})") from error
        if self.xxh128 not in (None, xxh128.hexdigest()):
            raise LocalError(
                f"{self.path}: is damaged: its checksum is {xxh128.hexdigest()}, but {self.xxh128}"
                " in the manifest"
            )

    def _compare(self, stamp: tuple[int, ...]) -> None:
        if stamp != self.stamp:
            raise ChangedError(
                f"{self.path}: changed during the upload; wait until nothing writes to it, and run"
                " the same command again"
            )


@dataclass(frozen=True)
class LocalFolder:
    """Content of a local folder."""

    files: Mapping[str, LocalFile]
    """Files by name, sorted by name."""
    hidden: tuple[str, ...]
    """Names of files and folders that begin with a dot, which are skipped."""
    empty: tuple[str, ...]
    """Folders without files, which storage cannot represent."""
    manifest: Manifest | None = None
    """Manifest of the data set that the folder contains, or None."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    @property
    def last(self) -> str | None:
        """Name of the file that is uploaded last: if it exists, so do all others."""
        return FILE_NAME if self.manifest else None

    @cached_property
    def manifest_content(self) -> bytes | None:
        """Content of the manifest, or None without a manifest."""
        return self.files[FILE_NAME].path.read_bytes() if self.manifest else None

    def version(self, md5s: Mapping[str, bytes]) -> str:
        """Return the data set's version: the manifest's, or a hash of all names and contents.

        Args:
            md5s: MD5 of all files by name; only used without a manifest.
        """
        if self.manifest is not None:
            return self.manifest.version
        whole = hashlib.sha256()
        for name, file in self.files.items():
            for part in (name.encode(), file.size.to_bytes(8, "big"), md5s[name]):
                whole.update(len(part).to_bytes(8, "big") + part)
        return whole.hexdigest()[:VERSION_LENGTH]


def read_data_set(path: Path) -> LocalFolder:
    """Scan a folder, and compare it with its manifest if it has one.

    Raises:
        LocalError: The folder cannot be uploaded, or does not match its manifest.
    """
    folder = scan(path)
    if not folder.files:
        raise LocalError(f"{path}: contains no files to upload")
    if not path.is_dir() or FILE_NAME not in folder.files:
        return folder
    try:
        manifest = load_manifest(path)
    except DataError as error:
        raise LocalError(str(error)) from error
    if manifest.files:
        raise LocalError(
            f"{path}: its manifest refers to files in {manifest.files}; prepare these without"
            " --output, and upload that folder"
        )
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    files = dict(folder.files)
    for shard in shards:
        if shard.file not in files:
            raise LocalError(
                f"{path}: {shard.file} is in the manifest, but is a hidden file; rename it"
            )
        files[shard.file] = replace(files[shard.file], xxh128=shard.xxh128)
    return replace(folder, files=files, manifest=manifest)


def scan(path: Path) -> LocalFolder:
    """Find all files of a folder, or the single file at the path.

    Hidden files are skipped, as they are other programs' temporary files. Symbolic links are
    refused: they may lead out of the folder, to files that someone else may change.

    Raises:
        LocalError: The path does not exist, or some files cannot be uploaded; lists all of them.
    """
    if not path.exists():
        raise LocalError(f"{path}: does not exist")
    files: dict[str, LocalFile] = {}
    hidden: list[str] = []
    empty: list[str] = []
    problems: list[str] = []
    try:
        for name, file, status in _walk(path, hidden, empty):
            problems += _problems(name, status)
            files[name] = LocalFile(name, file, status.st_size, _stamp(status))
    except OSError as error:
        raise LocalError(f"{error.filename}: cannot be read ({error.strerror})") from error
    if problems:
        raise LocalError(f"{path}: cannot be uploaded:\n{listing(sorted(problems))}")
    return LocalFolder(dict(sorted(files.items())), tuple(sorted(hidden)), tuple(sorted(empty)))


def _walk(
    path: Path, hidden: list[str], empty: list[str]
) -> Iterator[tuple[str, Path, os.stat_result]]:
    """Find the entries of a folder that are not folders; add skipped ones to the lists."""

    def refuse(error: OSError) -> NoReturn:
        raise error

    if not path.is_dir():
        yield path.name, path, path.stat()
        return
    for root, folders, names in os.walk(path, onerror=refuse):
        folder = Path(root)
        prefix = "" if folder == path else f"{folder.relative_to(path).as_posix()}/"
        entries = [*folders, *names]
        hidden += [prefix + name for name in entries if name.startswith(".")]
        folders[:] = [name for name in folders if not name.startswith(".")]
        visible = [name for name in entries if not name.startswith(".")]
        if prefix and not visible:
            empty.append(prefix.rstrip("/"))
        for name in visible:
            status = (folder / name).lstat()
            if not stat.S_ISDIR(status.st_mode):
                yield prefix + name, folder / name, status


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return values that change with a file; see `LocalFile.stamp`."""
    return status.st_size, status.st_mtime_ns, status.st_ino


def _problems(name: str, status: os.stat_result) -> Iterator[str]:
    """Return why a file cannot be uploaded: its name as that of a blob, or its kind."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    if shown != name:
        yield f"{shown}: its name is not valid UTF-8; rename it"
    elif any(not character.isprintable() or character == "\\" for character in name):
        yield f"{name!r}: its name has a backslash or a control character; rename it"
    elif any(part.endswith(".") for part in name.split("/")):
        yield f"{name}: a part of its name ends with a dot, which storage drops; rename it"
    elif len(name) > LONGEST_NAME:
        yield f"{name[:60]}...: its name has {len(name)} characters, storage allows {LONGEST_NAME}"
    if stat.S_ISLNK(status.st_mode):
        yield f"{shown}: is a symbolic link; replace it with the file itself"
    elif not stat.S_ISREG(status.st_mode):
        yield f"{shown}: is not a regular file"
