"""Files where they lie: in a folder, or in an archive that is never unpacked."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer.data.prepare.entries import HIDDEN


@dataclass(frozen=True)
class Found:
    """One file."""

    path: str
    """From the folder or archive that was named, with `/`; empty for that archive itself."""
    container: str
    """The file that holds its bytes: itself, or the outermost archive."""
    offset: int
    """Where in the container it begins."""
    size: int
    """Its bytes."""
    changed: int
    """When the container was changed last, in ns since 1970."""
    fault: str = ""
    """Why it cannot be used, whatever is in it; empty if it can."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def where(self) -> str:
        """As an error names it."""
        return f"{self.container}: {self.path}" if self.offset else self.container


def on_disk(path: Path) -> Found:
    """A file that was named itself."""
    state = path.stat()
    return Found("", str(path), 0, state.st_size, state.st_mtime_ns)


def in_folder(folder: Path, root: Path) -> Iterator[Found]:
    """All files in a folder and below, by name; links to folders are not followed.

    Args:
        folder: is listed.
        root: what links may not leave, and where paths begin.
    """
    for item in listed(folder):
        if item.is_dir(follow_symlinks=False) and not item.name.startswith("."):
            yield from in_folder(Path(item.path), root)
        else:
            yield look(item, root)


def listed(folder: Path) -> list["os.DirEntry[str]"]:
    """What is in a folder, by name."""
    with os.scandir(folder) as items:
        return sorted(items, key=lambda item: item.name)


def look(item: "os.DirEntry[str]", root: Path) -> Found:
    """One file, link or hidden folder."""
    state, fault = item.stat(follow_symlinks=False), ""
    if item.is_symlink():
        fault = _link_fault(Path(item.path), root)
        state = state if fault else item.stat()
    if not fault and item.name.startswith("."):
        fault = HIDDEN
    if not fault and not stat.S_ISREG(state.st_mode):
        fault = "is not a file"
    path = Path(item.path).relative_to(root).as_posix()
    return Found(path, item.path, 0, state.st_size, state.st_mtime_ns, fault)


def _link_fault(link: Path, root: Path) -> str:
    target = Path(os.path.realpath(link))
    if not target.is_relative_to(Path(os.path.realpath(root))):
        return "is a link that leads out of the folder"
    if not target.exists():
        return "is a link to nothing"
    return "is a link to a folder" if target.is_dir() else ""
