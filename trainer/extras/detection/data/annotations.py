"""The boxes of a data set, as a format describes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trainer.data.intake.names import Note
from trainer.data.prepare.input_files import ImageFile
from trainer.data.prepare.rejected import RejectedFile
from trainer.data.prepare.splits import split_of
from trainer.extras.detection.boxes import Box

Sized = tuple[list[Box], int, int]
"""Boxes, and the width and height of the image for which they were made, 0 if they are unknown."""


@dataclass(frozen=True)
class Annotations:
    """The contents of the annotations of a data set."""

    classes: tuple[str, ...]
    """Names of the classes in the order of labels."""
    images: Callable[[], Iterator[ImageFile | RejectedFile]]
    """Yields each image with its split, empty if it has none. Its time of change changes when that
    of its annotations does, and its `target` is what `boxes` needs."""
    boxes: Callable[[ImageFile, int, int], Sized]
    """Returns the boxes of an image, given its file, and its width and height in pixels; raises
    RejectedError if they cannot be used, and DataError if they cannot be read now. It is sent to
    each process."""
    relative: bool = False
    """Whether boxes are fractions of an image, so that their size does not tell which way up it
    was."""
    notes: tuple[Note, ...] = ()
    """Notes for the user."""


def named_split(path: str) -> str:
    """Return the split that a path names; also of names such as train2017."""
    return split_of("".join("-" if letter.isdigit() else letter for letter in path))
