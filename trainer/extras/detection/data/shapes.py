"""The embedded data set for detection: geometric shapes on photographs, 96 x 96 pixels.

Everything follows from the number of an image; see `trainer.data.builtin.photographs`.
"""

import random
from collections.abc import Callable, Sequence
from math import cos, pi, sin
from typing import Any, Final

import numpy as np
from PIL import Image, ImageDraw
from sklearn.datasets import load_sample_image

from trainer.data.builtin.photographs import TRAINING, VALIDATION, contrasting, window
from trainer.data.builtin.writer import png_record
from trainer.data.example import Record
from trainer.extras.detection.boxes import Box, main_class, pack
from trainer.extras.detection.leaf import BOXES

SIZE: Final = 96
"""Height and width of an image, in pixels."""
TRAINING_IMAGES: Final = 1600
VALIDATION_IMAGES: Final = 200
SHAPES_PER_IMAGE: Final = (1, 5)
"""Fewest and most shapes that are tried; one that would cover another is left out."""
RADII: Final = (8.0, 24.0)
"""Smallest and largest radius of a shape, in pixels."""
_SMOOTH: Final = 4
"""Factor at which shapes are drawn, to be shrunk with smooth edges."""

Array = np.ndarray[Any, Any]
Points = Sequence[tuple[float, float]]


def _around(*radii: float, turn: float = 0.0) -> Points:
    """Return points around the middle at equal angles, at radii in turn."""
    step = 2 * pi / len(radii)
    return [(r * cos(turn + n * step), r * sin(turn + n * step)) for n, r in enumerate(radii)]


_CROSS: Final[Points] = [
    *((0.35, 0.35), (1, 0.35), (1, -0.35), (0.35, -0.35), (0.35, -1), (-0.35, -1)),
    *((-0.35, -0.35), (-1, -0.35), (-1, 0.35), (-0.35, 0.35), (-0.35, 1), (0.35, 1)),
]

SHAPES: Final[dict[str, Callable[[], Points]]] = {
    "circle": lambda: _around(*[1.0] * 48),
    "square": lambda: _around(*[1.0] * 4, turn=pi / 4),
    "triangle": lambda: _around(*[1.0] * 3, turn=-pi / 2),
    "star": lambda: _around(*[1.0, 0.4] * 5, turn=-pi / 2),
    "cross": lambda: _CROSS,
}
CLASSES: Final = tuple(SHAPES)


def shapes(photograph: str, count: int) -> list[Record]:
    """Return images with their boxes as records.

    Args:
        photograph: File name of one of scikit-learn's photographs.
        count: Number of images.
    """
    background = load_sample_image(photograph)
    return [_shapes(background, f"{photograph} {number}") for number in range(count)]


def _shapes(photograph: Array, name: str) -> Record:
    chance = random.Random(name)
    image = Image.fromarray(window(photograph, SIZE, chance))
    boxes: list[Box] = []
    for _ in range(chance.randint(*SHAPES_PER_IMAGE)):
        label, radius = chance.randrange(len(CLASSES)), chance.uniform(*RADII)
        x, y = (chance.uniform(radius, SIZE - radius) for _ in "xy")
        turn = chance.uniform(-0.3, 0.3)
        points = [
            (x + radius * (a * cos(turn) - b * sin(turn)),
             y + radius * (a * sin(turn) + b * cos(turn)))
            for a, b in SHAPES[CLASSES[label]]()
        ]  # fmt: skip
        across, down = zip(*points, strict=True)
        left, top = (max(min(side), 0.0) for side in (across, down))
        right, bottom = (min(max(side), float(SIZE)) for side in (across, down))
        box = Box(left, top, right, bottom, label)
        if any(_touch(box, other) for other in boxes):
            continue
        image = _drawn(image, points, chance)
        boxes.append(box)
    stored = {BOXES: pack(boxes, SIZE, SIZE)}
    return png_record(image, main_class(boxes), CLASSES, f"{name}.png", stored)


def _touch(box: Box, other: Box) -> bool:
    return (
        min(box.right, other.right) > max(box.left, other.left)
        and min(box.bottom, other.bottom) > max(box.top, other.top)
    )  # fmt: skip


def _drawn(image: Image.Image, points: Points, chance: random.Random) -> Image.Image:
    """Draw a shape in a colour that differs from the background."""
    cover = Image.new("L", (SIZE * _SMOOTH,) * 2)
    ImageDraw.Draw(cover).polygon([(x * _SMOOTH, y * _SMOOTH) for x, y in points], fill=255)
    cover = cover.resize((SIZE, SIZE), Image.Resampling.BOX)
    pixels, part = np.asarray(image, np.float64), np.asarray(cover, np.float64)[..., None] / 255.0
    dark = (pixels * part).sum() / max(part.sum() * 3, 1.0) <= 127
    colour = contrasting(dark=dark, chance=chance)
    return Image.fromarray((pixels + part * (colour - pixels)).round().astype(np.uint8))


def records() -> tuple[list[Record], list[Record], tuple[str, ...]]:
    """See `EmbeddedDataSet.records`."""
    train = shapes(TRAINING, TRAINING_IMAGES)
    return train, shapes(VALIDATION, VALIDATION_IMAGES), CLASSES
