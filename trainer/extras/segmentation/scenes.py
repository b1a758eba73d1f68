"""The embedded data set for segmentation: handwritten digits on photographs, 32 x 32 pixels.

Both are real data of scikit-learn: its 1,797 digits and its two photographs. Training images show
training digits on one photograph, held-out images show held-out digits on the other one. Each pixel
of a digit's strokes is of the digit's class, and all others are background. Everything follows from
the number of an image.
"""

import io
import random
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from trainer.data.builtin.digits import CLASSES as DIGITS
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split
from trainer.data.builtin.photographs import TRAINING, VALIDATION, contrasting, window
from trainer.data.example import Record
from trainer.extras.segmentation.mask_files import features

CLASSES: Final = ("background", *DIGITS)
SIZE: Final = 32
"""Height and width of an image, in pixels."""
TRAINING_IMAGES: Final = 2400
VALIDATION_IMAGES: Final = 240
DIGITS_PER_IMAGE: Final = (1, 2)
"""Fewest and most digits in an image."""
DIGIT_SIZES: Final = (18, 26)
"""Smallest and largest side of a digit, in pixels."""
INK: Final = 0.35
"""Darkness of a digit's pixel, 0 to 1, from which it belongs to the strokes."""

Array = np.ndarray[Any, Any]


def scenes(photograph: str, digits: Sequence[Record], count: int) -> list[Record]:
    """Return images with their masks as records.

    Args:
        photograph: File name of one of scikit-learn's photographs.
        digits: Digits to place on it.
        count: Number of images.
    """
    background = load_sample_image(photograph)
    return [_scene(background, digits, f"{photograph} {number}") for number in range(count)]


def _scene(photograph: Array, digits: Sequence[Record], name: str) -> Record:
    chance = random.Random(name)
    image = window(photograph, SIZE, chance).astype(np.float64)
    mask = np.zeros([SIZE, SIZE], np.uint8)
    labels = []
    for _ in range(chance.randint(*DIGITS_PER_IMAGE)):
        digit = chance.choice(digits)
        side = chance.randint(*DIGIT_SIZES)
        y, x = chance.randint(0, SIZE - side), chance.randint(0, SIZE - side)
        if mask[y : y + side, x : x + side].any():
            continue
        with Image.open(io.BytesIO(digit.encoded)) as small:
            ink = np.asarray(small.convert("L").resize((side, side), Image.Resampling.BICUBIC))
        _draw(image[y : y + side, x : x + side], ink / 255.0, chance)
        mask[y : y + side, x : x + side][ink / 255.0 > INK] = digit.label + 1
        labels.append(digit.label + 1)
    return Record(
        _png(image), "PNG", SIZE, SIZE, labels[0], CLASSES[labels[0]], f"{name}.png",
        more=features(_png(mask)),
    )  # fmt: skip


def _draw(part: Array, ink: Array, chance: random.Random) -> None:
    """Draw a digit onto a part of an image, in a colour that differs from the background."""
    colour = contrasting(dark=part.mean() <= 127, chance=chance)
    part += np.clip(ink / INK, 0, 1)[..., None] * (colour - part)


def _png(pixels: Array) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.clip(np.round(pixels), 0, 255).astype(np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


def records() -> tuple[list[Record], list[Record], tuple[str, ...]]:
    """See `EmbeddedDataSet.records`."""
    training, held_out = split(load_records(), VALIDATION_PER_CLASS, "digits")
    train = scenes(TRAINING, training, TRAINING_IMAGES)
    return train, scenes(VALIDATION, held_out, VALIDATION_IMAGES), CLASSES
