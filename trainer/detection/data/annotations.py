"""The boxes of a data set, as a format describes them."""

from collections.abc import Callable
from dataclasses import dataclass

from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_of
from trainer.detection.boxes import Box

Sized = tuple[list[Box], int, int]
"""Boxes, and the width and height of the image for which they were made, 0 if they are unknown."""


@dataclass(frozen=True)
class Annotations:
    """What the annotations of a data set tell."""

    classes: tuple[str, ...]
    """Names of the classes in the order of labels."""
    images: tuple[ImageFile | RejectedFile, ...]
    """Each image with its split, empty if it has none. Its time of change changes when that of its
    annotations does."""
    boxes: Callable[[str, int, int], Sized]
    """Returns the boxes of an image, given its path in the folder, and its width and height in
    pixels; raises RejectedError if they cannot be used, and DataError if they cannot be read now.
    It is sent to each process."""
    notes: tuple[str, ...] = ()
    """Notes for the user."""


def named_split(path: str) -> str:
    """Return the split that a path names; also of names such as train2017."""
    return split_of("".join("-" if letter.isdigit() else letter for letter in path))
