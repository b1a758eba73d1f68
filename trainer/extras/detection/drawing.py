"""Boxes drawn on images."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from trainer.tasks.overlays import colour

Drawn = tuple[Sequence[float], int, str]
"""Left, top, right and bottom as fractions of the image; the class; and a text."""


def draw_boxes(image: Image.Image, boxes: Iterable[Drawn]) -> Image.Image:
    """Return a copy of an image with boxes and their texts."""
    drawn = image.convert("RGB")
    pen, line = ImageDraw.Draw(drawn), max(1, round(min(image.size) / 200))
    font = ImageFont.load_default(max(10.0, min(image.size) / 40))
    for corners, label, text in boxes:
        left, top, right, bottom = (
            side * length for side, length in zip(corners, image.size * 2, strict=True)
        )
        pen.rectangle((left, top, max(right, left), max(bottom, top)), outline=colour(label + 1),
                      width=line)  # fmt: skip
        if text:
            place = (left + line, top + line)
            pen.rectangle(pen.textbbox(place, text, font=font), fill=colour(label + 1))
            pen.text(place, text, fill="black", font=font)
    return drawn


def draw_answers(encoded: bytes, answers: Sequence[Mapping[str, Any]]) -> bytes:
    """See `Answers.draw`: a JPEG of the image with the objects that were found."""
    with Image.open(io.BytesIO(encoded)) as image:
        drawn = draw_boxes(
            image,
            ((answer["box"], answer["class_id"], f"{answer['class_name']} {answer['score']:.0%}")
             for answer in answers),
        )  # fmt: skip
    data = io.BytesIO()
    drawn.save(data, "JPEG", quality=90)
    return data.getvalue()
