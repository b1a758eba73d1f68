"""File systems that fail, and the remains of one after a crash, for the tests of checkpoints."""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from trainer.checkpoints.filesystem import Chunk, Files

CHANGES = ("make_folder", "write", "rename", "remove", "remove_tree")


class Killed(BaseException):
    """The process ends here; nothing catches this."""


@dataclass(frozen=True)
class Operation:
    """The operations on a file system."""

    what: str
    path: Path
    data: bytes = b""
    target: Path = Path()

    def apply(self, files: "MemoryFiles", *, torn: bool = False) -> None:
        """Do it, or half of a write or of a folder's removal."""
        data = self.data[: len(self.data) // 2] if torn else self.data
        match self.what:
            case "make_folder":
                files.make_folder(self.path)
            case "write":
                files.write(self.path, [data])
            case "rename":
                files.rename(self.path, self.target)
            case "remove":
                files.remove(self.path)
            case "remove_tree" if torn:
                for name in files.names(self.path)[1:]:
                    files.remove(self.path / name)
            case "remove_tree":
                files.remove_tree(self.path)


class FaultyFiles:
    """Notes each operation on another file system and lets one of them fail.

    Args:
        files: does the work.
        at: number of the operation that fails, from 0; none fails if there is no such.
        error: the error: Killed also for every operation after it.
        torn: whether the operation is half done, if it is a write.
        before: is called before that operation instead.
    """

    def __init__(
        self,
        files: Files,
        at: int = -1,
        error: BaseException | None = None,
        *,
        torn: bool = False,
        before: Callable[[], None] | None = None,
    ) -> None:
        self._files, self._at, self._error = files, at, error
        self._torn, self._before = torn, before
        self.journal: list[Operation] = []

    def make_folder(self, path: Path) -> None:
        self._note(Operation("make_folder", path))
        self._files.make_folder(path)

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        data = b"".join(map(bytes, chunks))
        try:
            self._note(Operation("write", path, data))
        except BaseException:
            if self._torn and len(self.journal) == self._at + 1:
                self._files.write(path, [data[: len(data) // 2]])
            raise
        self._files.write(path, [data])

    def sync_folder(self, path: Path) -> None:
        self._note(Operation("sync_folder", path))
        self._files.sync_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        self._note(Operation("rename", source, target=target))
        self._files.rename(source, target)

    def remove(self, path: Path) -> None:
        self._note(Operation("remove", path))
        self._files.remove(path)

    def remove_tree(self, path: Path) -> None:
        self._note(Operation("remove_tree", path))
        self._files.remove_tree(path)

    def names(self, path: Path) -> list[str]:
        self._note(Operation("names", path))
        return self._files.names(path)

    def read(self, path: Path) -> Iterator[bytes]:
        self._note(Operation("read", path))
        return self._files.read(path)

    def free_bytes(self, path: Path) -> int | None:
        self._note(Operation("free_bytes", path))
        return self._files.free_bytes(path)

    def _note(self, operation: Operation) -> None:
        number = len(self.journal)
        self.journal.append(operation)
        if number == self._at and self._before:
            self._before()
        dead = isinstance(self._error, Killed) and number > self._at
        if self._error and (number == self._at or dead):
            raise self._error


class MemoryFiles:
    """A file system that is a dictionary: copied, and compared, in no time."""

    def __init__(
        self, content: dict[Path, bytes] | None = None, folders: Iterable[Path] = ()
    ) -> None:
        self.content = dict(content or {})
        self.folders = set(folders)

    def copy(self) -> "MemoryFiles":
        return MemoryFiles(self.content, self.folders)

    def make_folder(self, path: Path) -> None:
        self.folders |= {path, *path.parents}

    def write(self, path: Path, chunks: Iterable[Chunk]) -> None:
        if path.parent not in self.folders:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path in self.content:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.content[path] = b"".join(map(bytes, chunks))

    def sync_folder(self, path: Path) -> None:
        pass

    def rename(self, source: Path, target: Path) -> None:
        if source not in self.content:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self.content[target] = self.content.pop(source)

    def remove(self, path: Path) -> None:
        self.content.pop(path, None)

    def remove_tree(self, path: Path) -> None:
        self.content = {p: data for p, data in self.content.items() if path not in p.parents}
        self.folders = {p for p in self.folders if p != path and path not in p.parents}

    def names(self, path: Path) -> list[str]:
        return sorted(p.name for p in {*self.content, *self.folders} if p.parent == path)

    def read(self, path: Path) -> Iterator[bytes]:
        if path not in self.content:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return iter([self.content[path]])

    def free_bytes(self, path: Path) -> int | None:
        return None


def crashes(
    start: MemoryFiles, journal: Sequence[Operation], *, syncs_hold: bool, lost: int
) -> Iterator[MemoryFiles]:
    """What may be found after a crash that came when all of the journal was done.

    What no later sync of its folder covers may each have reached the disk, or not, or half, in any
    combination.

    Args:
        start: before the first operation.
        journal: operations since.
        syncs_hold: whether a sync means anything on this mount.
        lost: the most operations that are lost or torn.
    """
    changes: list[Operation] = []
    unsure: list[list[tuple[int, str]]] = []
    for number, operation in enumerate(journal):
        if operation.what not in CHANGES:
            continue
        covered = syncs_hold and any(
            later.what == "sync_folder" and later.path == operation.path.parent
            for later in journal[number + 1 :]
        )
        if not covered:
            divisible = operation.what in {"write", "remove_tree"}
            fates = ("lost", "torn") if divisible else ("lost",)
            unsure.append([(len(changes), fate) for fate in fates])
        changes.append(operation)
    for count in range(min(lost, len(unsure)) + 1):
        for some in combinations(unsure, count):
            for ill in map(dict, product(*some)):
                files = start.copy()
                for number, operation in enumerate(changes):
                    if ill.get(number) == "lost":
                        continue
                    # Its file may be lost.
                    with suppress(OSError):
                        operation.apply(files, torn=number in ill)
                yield files
