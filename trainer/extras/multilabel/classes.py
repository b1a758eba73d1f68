"""The classes of an image as records hold them: a byte for each class, 1 or 0. Standard library
only.
"""

from collections.abc import Iterable
from typing import Any

from trainer.data.pixels.treatment import RejectedError


def pack(labels: Iterable[int], classes: int) -> bytes:
    """Return the classes of an image, each counted from 0, as they are stored."""
    flags = bytearray(classes)
    for label in labels:
        flags[label] = 1
    return bytes(flags)


def main_class(stored: bytes) -> int:
    """Return the first class, which becomes the label of the record; 0 if there is none."""
    return max(stored.find(1), 0)


def stored_fault(stored: bytes, width: int, height: int, classes: int) -> str | None:
    """Return the fault of the classes of a record, or None; see
    `TaskDescription.features`.
    """
    del width, height
    if len(stored) != classes:
        return f"has {len(stored)} bytes for its classes, but the data set has {classes} classes"
    strange = next((value for value in stored if value > 1), None)
    return None if strange is None else f"has the byte {strange} for a class, which must be 0 or 1"


def packed(row: Any, encoded: bytes, form: str, classes: int) -> tuple[bytes, int]:
    """Return the classes of a row of a table, a list of numbers from 0; see `RowTarget.pack`.

    Raises:
        RejectedError: There is no list, or a number is not one of a class.
    """
    del encoded, form
    if row is None:
        raise RejectedError("has no list of classes; write an empty list if it has none of them")
    strange = next((label for label in row if label is None or not 0 <= label < classes), 0)
    if strange != 0:
        raise RejectedError(
            f"has the class {strange} in its list; classes are 0 to {classes - 1}, as many as names"
        )
    stored = pack(row, classes)
    return stored, main_class(stored)
