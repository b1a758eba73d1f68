"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, 10 classes.

They are real data (UCI's Optical Recognition of Handwritten Digits) and are part of a package that
is installed anyway, so a first training needs no download.
"""

import random

import numpy as np
from PIL import Image

from trainer.data.builtin.writer import png_record
from trainer.data.example import Record

VALIDATION_PER_CLASS = 36
CLASSES = tuple(str(digit) for digit in range(10))


def load_records() -> list[Record]:
    """Return all digits as PNG records, in scikit-learn's order."""
    from sklearn.datasets import load_digits

    data = load_digits()
    records = []
    for number, (pixels, label) in enumerate(zip(data.images, data.target, strict=True)):
        image = Image.fromarray(np.round(pixels * (255 / 16)).astype(np.uint8))
        records.append(png_record(image, int(label), CLASSES, f"digit-{number:04d}.png"))
    return records


def split(records: list[Record], per_class: int, key: str) -> tuple[list[Record], list[Record]]:
    """Split off `per_class` records of each class, seeded by a text; both parts are shuffled."""
    shuffled = sorted(records, key=lambda record: record.filename)
    random.Random(key).shuffle(shuffled)
    taken = dict.fromkeys(CLASSES, 0)
    training: list[Record] = []
    validation: list[Record] = []
    for record in shuffled:
        taken[record.text] += 1
        (validation if taken[record.text] <= per_class else training).append(record)
    return training, validation


def records() -> tuple[list[Record], list[Record], tuple[str, ...]]:
    """See `EmbeddedDataSet.records`."""
    return *split(load_records(), VALIDATION_PER_CLASS, "digits"), CLASSES
