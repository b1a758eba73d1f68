"""Boxes of a record, as they are stored, checked and packed. No TensorFlow.

A record holds its boxes under the key `BOXES` as little-endian float32: the width and height of the
image for which they were made, in pixels, and then `FIELDS` for each box. Corners are fractions of
width and height, so they fit the image at any size; the area is in pixels of that image, as COCO
counts it (of the object's outline, where that is known).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final

import numpy as np

from trainer.data.pixels.treatment import RejectedError

FIELDS: Final = ("left", "top", "right", "bottom", "class", "crowd", "area")
TOLERANCE: Final = 1.0
"""Pixels by which a box may reach over the edge of its image, as rounding makes it; it is cut
off."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Box:
    """A box of an annotation, in pixels of its image."""

    left: float
    top: float
    right: float
    bottom: float
    label: int
    """Its class, counted from 0."""
    crowd: bool = False
    """Whether it is around many objects that are not told apart, so that it counts neither as found
    nor as missed."""
    area: float | None = None
    """Area of the object in pixels; None is that of the box."""
    where: str = "box"
    """What to call it in errors."""


class UnfitBoxError(RejectedError):
    """A box that cannot be used; the message names it."""


def turned(box: Box, orientation: int, width: int, height: int) -> Box:
    """Return a box of an image as it is stored, as one of the image that is turned upright.

    Args:
        box: The box.
        orientation: EXIF orientation of the image.
        width: Width of the image as it is stored, in pixels.
        height: Height of the image as it is stored, in pixels.
    """
    left, top, right, bottom = box.left, box.top, box.right, box.bottom
    if orientation in (2, 3, 7, 8):
        left, right = width - right, width - left
    if orientation in (3, 4, 6, 7):
        top, bottom = height - bottom, height - top
    if orientation >= 5:
        left, top, right, bottom = top, left, bottom, right
    return replace(box, left=left, top=top, right=right, bottom=bottom)


def with_advice(error: UnfitBoxError, advice: str) -> RejectedError:
    """Return the same error, with what to do about it."""
    *details, last = error.args
    return RejectedError(*details, f"{last} {advice}")


def fitted(box: Box, width: int, height: int, classes: int) -> Box:
    """Return a box whose corners are inside its image.

    Raises:
        UnfitBoxError: It has a number that is not finite, no area, another class, or reaches out of
            the image by more than `TOLERANCE`.
    """
    corners = (box.left, box.top, box.right, box.bottom)
    shown = f"{box.where} ({', '.join(f'{corner:g}' for corner in corners)})"
    if not all(map(isfinite, corners)):
        raise UnfitBoxError("has ", shown, ", whose corners are not all numbers")
    if not 0 <= box.label < classes:
        raise UnfitBoxError("has ", shown, f" of class {box.label}; classes are 0 to {classes - 1}")
    if box.right <= box.left or box.bottom <= box.top:
        raise UnfitBoxError("has ", shown, ", which has no area")
    over = max(-box.left, -box.top, box.right - width, box.bottom - height)
    if over > TOLERANCE:
        raise UnfitBoxError(
            "has ", shown, f", which reaches {over:g} pixels out of the image of {width} x {height}"
        )
    left, right = max(box.left, 0.0), min(box.right, float(width))
    top, bottom = max(box.top, 0.0), min(box.bottom, float(height))
    if right <= left or bottom <= top:
        raise UnfitBoxError("has ", shown, f", which is outside of the image of {width} x {height}")
    if np.float32(left / width) >= np.float32(right / width) or (
        np.float32(top / height) >= np.float32(bottom / height)
    ):
        raise UnfitBoxError("has ", shown, ", which has no area")
    area = box.area if box.area and isfinite(box.area) and box.area > 0 else None
    return Box(left, top, right, bottom, box.label, box.crowd, area, box.where)


def pack(boxes: Sequence[Box], width: int, height: int) -> bytes:
    """Return boxes, which `fitted` has returned, as they are stored."""
    values: list[float] = [width, height]
    for box in boxes:
        area = (box.right - box.left) * (box.bottom - box.top) if box.area is None else box.area
        values += (box.left / width, box.top / height, box.right / width, box.bottom / height)
        values += (box.label, box.crowd, area)
    return np.asarray(values, "<f4").tobytes()


def unpack(stored: bytes) -> tuple[Array, Array]:
    """Return [width, height] and the boxes, float32 [n, 7], of what `pack` returned.

    Raises:
        ValueError: They are not complete.
    """
    values = np.frombuffer(stored, "<f4")
    return values[:2], values[2:].reshape(-1, len(FIELDS))


def main_class(boxes: Sequence[Box]) -> int:
    """Return the class of the largest box of a single object; 0 if there is none."""
    sizes = {(b.right - b.left) * (b.bottom - b.top): b.label for b in boxes if not b.crowd}
    return sizes[max(sizes)] if sizes else 0


def stored_boxes_fault(stored: bytes, width: int, height: int, classes: int) -> str | None:
    """Return the fault of the boxes of a record, or None; see `TaskDescription.features`."""
    try:
        size, boxes = unpack(stored)
    except ValueError:
        return f"has boxes of {len(stored)} bytes, which are not complete"
    if len(size) < 2 or not (size > 0).all():
        return "has boxes without the size of their image"
    if abs(size[0] * height - size[1] * width) > max(*size, width, height):
        return f"has {width} x {height} pixels, but boxes for {size[0]:g} x {size[1]:g}"
    for number, (left, top, right, bottom, label, crowd, area) in enumerate(boxes.tolist()):
        inside = 0 <= left < right <= 1 and 0 <= top < bottom <= 1
        if not (inside and label in range(classes) and crowd in (0, 1) and area > 0):
            return f"box {number} is not one of a class, with an area, inside the image"
    return None
