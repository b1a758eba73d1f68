"""The image files that a command line names, or a file of labels."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from common.errors import UserError
from common.text import plural

SUFFIXES: Final = (
    *(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".jpe", ".jfif", ".apng"),
)
"""Suffixes of the images in a folder, in upper or lower case: those of the formats that are
accepted. A file given by name may have any."""

_HIDDEN: Final = (
    *("thumbs.db", "ehthumbs.db", "desktop.ini", "lost+found"),
    *("__macosx", "@eadir", "$recycle.bin"),
)
"""Names in lower case that file managers, file systems and archives leave behind, besides those
that begin with a dot."""

_EXAMPLES: Final = 3
"""Most entries that a note names."""


@dataclass
class ImageFiles:
    """Files to use as images, and files of folders that were left out."""

    paths: list[Path] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of files by suffix; without hidden files."""
    no_files: int = 0
    """Number of entries with the name of an image that are not files, such as broken links."""
    examples: list[Path] = field(default_factory=list)
    """The first of these in each folder."""
    links: list[Path] = field(default_factory=list)
    """Links to folders, which are not followed: they may lead in circles."""

    @property
    def note(self) -> str:
        """A sentence on the files that were left out; empty if all were read."""
        notes = []
        if self.left_out:
            # Those of equal number by suffix: files come in the order of the file system.
            common = sorted(self.left_out.items(), key=lambda item: (-item[1], item[0]))
            counts = ", ".join(f"{n:,} {suffix or 'without suffix'}" for suffix, n in common)
            files = plural(self.left_out.total(), "file")
            notes.append(f"left out {files} whose suffix is not that of an image: {counts}")
        if self.no_files:
            entries = plural(
                self.no_files, "broken link, pipe or device", "broken links, pipes or devices"
            )
            more = ", ..." * (self.no_files > _EXAMPLES)
            notes.append(f"left out {entries}: {_first(self.examples)}{more}")
        if self.links:
            links = plural(len(self.links), "link")
            more = ", ..." * (len(self.links) > _EXAMPLES)
            notes.append(
                f"left out {links} to folders, whose targets you can name instead:"
                f" {_first(self.links)}{more}"
            )
        return "; ".join(notes)

    def below(self, folder: Path, error: type[UserError]) -> Iterator[Path]:
        """Yield all images below a folder, in any order, except hidden ones and those in hidden
        folders, and count the files that are left out.

        Memory does not grow with the images.

        Args:
            folder: Folder to search.
            error: Error to raise.

        Raises:
            UserError: There are no images, or this user may not read a folder.
        """
        empty, examples = True, list[Path]()
        try:
            for path in entries_below(folder, error):
                suffix = path.suffix.lower()
                if path.is_file():
                    if suffix in SUFFIXES:
                        empty = False
                        yield path
                    else:
                        self.left_out[suffix] += 1
                elif path.is_dir():
                    if path.is_symlink():
                        self.links.append(path)
                elif suffix in SUFFIXES:
                    self.no_files += 1
                    examples = sorted([*examples, path])[:_EXAMPLES]
        except PermissionError as fault:
            # It may be listed, but not entered.
            raise error(not_listed(Path(fault.filename).parent, fault)) from fault
        self.examples += examples
        if empty:
            raise error(f"{folder}: has no images ({', '.join(SUFFIXES)}) in it or below")


def not_listed(folder: Path | str, fault: PermissionError) -> str:
    """Return the message about a folder that this user may not read: an unknown number of its
    images would be missing.
    """
    return (
        f"{folder}: cannot be listed ({fault.strerror}), so that its images would be missing; let"
        " this user read it, or move it elsewhere"
    )


def _first(paths: Iterable[Path]) -> str:
    return ", ".join(map(str, sorted(paths)[:_EXAMPLES]))


def entries_below(folder: Path, error: type[UserError]) -> Iterator[Path]:
    """Yield all entries below a folder, in any order, without hidden ones; links to folders are not
    followed.

    Args:
        folder: Folder to search.
        error: Error to raise.

    Raises:
        UserError: This user may not list a folder.
    """
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_hidden(entry.name):
                    continue
                path = Path(entry.path)
                yield path
                if entry.is_dir(follow_symlinks=False):
                    yield from entries_below(path, error)
    except PermissionError as fault:
        raise error(not_listed(folder, fault)) from fault


def find_images(names: Iterable[str], error: type[UserError] = UserError) -> ImageFiles:
    """Return the given files, and all images below the given folders, sorted in each folder.

    Args:
        names: Files and folders.
        error: Error to raise.

    Raises:
        UserError: A folder has no images or may not be read, or a name is that of a pipe or a
            device.
    """
    listing = ImageFiles()
    for path in map(Path, names):
        if not path.is_dir():
            if path.exists() and not path.is_file():
                # Reading it could wait for ever.
                raise error(f"{path}: is a pipe or a device, not a file; name a file or a folder")
            listing.paths.append(path)
            continue
        listing.paths += sorted(listing.below(path, error))
    return listing


def is_hidden(name: str) -> bool:
    """Return whether a name is of a hidden file or folder, or of one that file managers leave
    behind.
    """
    return name.startswith(".") or name.lower() in _HIDDEN


def is_image(name: str) -> bool:
    """Return whether a name has the suffix of an image."""
    return os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122 - speed
