"""The image files that a command line names. No TensorFlow."""

from collections.abc import Iterable
from pathlib import Path

from trainer.errors import DataError

SUFFIXES = (".jpg", ".jpeg", ".png")
"""Suffixes of the images in a folder, in upper or lower case; a file given by name may have any."""


def find_images(names: Iterable[str]) -> list[Path]:
    """Return the given files, and all images below the given folders, sorted in each folder.

    Raises:
        DataError: A folder has no images.
    """
    files: list[Path] = []
    for path in map(Path, names):
        if not path.is_dir():
            files.append(path)
            continue
        images = sorted(
            image
            for image in path.rglob("*")
            if image.suffix.lower() in SUFFIXES and image.is_file()
        )
        if not images:
            raise DataError(f"{path}: no {', '.join(SUFFIXES)} files in it or below")
        files += images
    return files
