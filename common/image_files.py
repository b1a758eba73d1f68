"""The image files that a command line names, or a file of labels."""

import os
from collections import Counter
from collections.abc import Iterable
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


@dataclass
class ImageFiles:
    """Files to use as images, and files of folders that were left out."""

    paths: list[Path] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of files by suffix; without hidden files, which file managers leave behind."""
    no_files: list[Path] = field(default_factory=list)
    """Entries of a folder with the name of an image that are not files, such as broken links."""

    @property
    def note(self) -> str:
        """A sentence on the files that were left out; empty if all were read."""
        notes = []
        if self.left_out:
            common = self.left_out.most_common()
            counts = ", ".join(f"{n:,} {suffix or 'without suffix'}" for suffix, n in common)
            files = plural(self.left_out.total(), "file")
            notes.append(f"left out {files} whose suffix is not that of an image: {counts}")
        if self.no_files:
            shown = ", ".join(str(path) for path in self.no_files[:3])
            more = ", ..." * (len(self.no_files) > 3)
            count = f"{len(self.no_files):,}"
            notes.append(f"left out {count} broken links, pipes or devices: {shown}{more}")
        return "; ".join(notes)


def find_images(names: Iterable[str], error: type[UserError] = UserError) -> ImageFiles:
    """Return the given files, and all images below the given folders, sorted in each folder.

    Args:
        names: Files and folders.
        error: Error to raise.

    Raises:
        UserError: A folder has no images, or a name is that of a pipe or a device.
    """
    listing = ImageFiles()
    for path in map(Path, names):
        if not path.is_dir():
            if path.exists() and not path.is_file():
                # Reading it could wait for ever.
                raise error(f"{path}: is a pipe or a device, not a file; name a file or a folder")
            listing.paths.append(path)
            continue
        everything = sorted(path.rglob("*"))
        files = [file for file in everything if file.is_file()]
        listing.no_files += [
            file
            for file in everything
            if file.suffix.lower() in SUFFIXES and not file.is_file() and not file.is_dir()
        ]
        images = [file for file in files if file.suffix.lower() in SUFFIXES]
        if not images:
            raise error(f"{path}: has no images ({', '.join(SUFFIXES)}) in it or below")
        listing.paths += images
        listing.left_out.update(
            file.suffix.lower()
            for file in files
            if file.suffix.lower() not in SUFFIXES and not file.name.startswith(".")
        )
    return listing


def is_image(name: str) -> bool:
    """Return whether a name has the suffix of an image."""
    return os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122 - speed
