"""The embedded data set of several classes per image: handwritten digits in four tiles.

An image of 16 x 16 pixels has four places, each with a digit of scikit-learn or empty. Its classes
are the digits that it shows, so it has none to four of them. Training images show training digits,
held-out images held-out digits. Everything follows from the number of an image.
"""

import io
import random
from collections.abc import Sequence
from typing import Final

from PIL import Image

from trainer.data.builtin.digits import CLASSES, VALIDATION_PER_CLASS, load_records, split
from trainer.data.builtin.writer import png_record
from trainer.data.example import Record
from trainer.extras.multilabel.classes import main_class, pack
from trainer.extras.multilabel.leaf import MULTI_HOT

SIZE: Final = 16
"""Height and width of an image, in pixels."""
TRAINING_IMAGES: Final = 3000
VALIDATION_IMAGES: Final = 400
EMPTY: Final = 0.5
"""Part of the tiles that are empty."""


def tiles(digits: Sequence[Record], count: int, key: str) -> list[Record]:
    """Return images with their classes as records.

    Args:
        digits: Digits to show.
        count: Number of images.
        key: Decides, with the number of an image, what it shows.
    """
    return [_tiled(digits, f"{key}-{number}") for number in range(count)]


def _tiled(digits: Sequence[Record], name: str) -> Record:
    chance = random.Random(name)
    image, labels = Image.new("RGB", (SIZE, SIZE)), set[int]()
    for place in range(4):
        if chance.random() < EMPTY:
            continue
        digit = chance.choice(digits)
        down, right = divmod(place, 2)
        with Image.open(io.BytesIO(digit.encoded)) as tile:
            image.paste(tile, (SIZE // 2 * right, SIZE // 2 * down))
        labels.add(digit.label)
    stored = pack(labels, len(CLASSES))
    return png_record(image, main_class(stored), CLASSES, f"{name}.png", {MULTI_HOT: stored})


def records() -> tuple[list[Record], list[Record], tuple[str, ...]]:
    """See `EmbeddedDataSet.records`."""
    training, held_out = split(load_records(), VALIDATION_PER_CLASS, "digits")
    train = tiles(training, TRAINING_IMAGES, "train")
    return train, tiles(held_out, VALIDATION_IMAGES, "validation"), CLASSES
