"""Boxes of rows as Hugging Face's data sets hold them: lists of `bbox` and `category`.

With them may come `area` and `iscrowd` (or `is_crowd`). The forms of a `bbox`, in pixels: xywh,
left and top corner with width and height, as COCO has it; corners, left, top, right and bottom. In
the forms xywh-drop and corners-drop, boxes that do not fit their image are left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trainer.data.pixels.encoded_image import open_stored
from trainer.data.pixels.treatment import RejectedError
from trainer.extras.detection.boxes import Box, UnfitBoxError, fitted, main_class, pack, with_advice

_ORIENTATION: Final = 0x0112
"""EXIF tag; 1 is upright."""


def packed(row: Any, encoded: bytes, form: str, classes: int) -> tuple[bytes, int]:
    """Return the boxes of a row as records hold them, and the class of the largest object.

    Args:
        row: A mapping with lists, or a list of mappings, one for each box.
        encoded: The image.
        form: One of the forms above.
        classes: Number of classes.

    Raises:
        RejectedError: The image cannot be read, or a box does not fit.
    """
    if not encoded:
        raise RejectedError("has no image in it, at most a path; write the files with the images")
    image = open_stored(encoded)
    if image.getexif().get(_ORIENTATION, 1) != 1:
        raise RejectedError(
            "is turned by its EXIF, so it is not clear for which image its boxes are; write the"
            " file with the image turned upright"
        )
    width, height = image.size
    boxes = []
    for number, object_ in enumerate(_objects(row)):
        try:
            boxes.append(fitted(_box(object_, number, form), width, height, classes))
        except UnfitBoxError as error:
            if not form.endswith("-drop"):
                forms = f"--target-form {form}-drop leaves it out"
                raise with_advice(error, f"({forms})") from error
    return pack(boxes, width, height), main_class(boxes)


def _objects(row: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of each object."""
    if not isinstance(row, Mapping):
        yield from row or ()
        return
    lists = {key: value for key, value in row.items() if value is not None}
    if not all(isinstance(value, list) for value in lists.values()):
        raise RejectedError(
            "has a bbox or a category that is not a list; write a list of both for each image"
        )
    if len({len(value) for value in lists.values()}) > 1:
        counts = ", ".join(f"{len(value)} {key}" for key, value in lists.items())
        raise RejectedError("has objects that are not told apart: ", counts)
    for values in zip(*lists.values(), strict=True):
        yield dict(zip(lists, values, strict=True))


def _box(object_: Mapping[str, Any], number: int, form: str) -> Box:
    corners, label = object_.get("bbox"), object_.get("category")
    if not isinstance(corners, Sequence) or len(corners) != 4 or None in corners:
        raise UnfitBoxError(f"has box {number} without four numbers")
    if label is None:
        raise UnfitBoxError(f"has box {number} without a category")
    where = f"has box {number} with "
    left, top, right, bottom = (_number(f"{where}the bbox ", corner) for corner in corners)
    if form.startswith("xywh"):
        right, bottom = left + right, top + bottom
    category = _number(f"{where}the category ", label, "that of its class, from 0")
    if not category.is_integer():
        raise RejectedError(f"{where}the category ", repr(label), ", which is not a whole number")
    crowd = _number(f"{where}the iscrowd ", object_.get("iscrowd") or object_.get("is_crowd") or 0)
    area = _number(f"{where}the area ", object_.get("area") or 0)
    return Box(left, top, right, bottom, int(category), bool(crowd), area, f"box {number}")


def _number(where: str, value: Any, cure: str = "a number") -> float:
    """Return a number, also one that is written as text.

    Raises:
        RejectedError: It is anything else. The box is not left out as one that does not fit,
            because all boxes of a data set would be.
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RejectedError(where, repr(value), f", which is not a number; write {cure}") from error
