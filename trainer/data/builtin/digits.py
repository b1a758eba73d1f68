"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, 10 classes.

They are real data (UCI's Optical Recognition of Handwritten Digits) and are part of a package that
is installed anyway, so a first training needs no download.
"""

import io
import random
from pathlib import Path

import numpy as np
from PIL import Image

from trainer.data.builtin.options import PrepareDigitsOptions
from trainer.data.builtin.writer import png_record, write_data_set
from trainer.data.example import Record
from trainer.data.manifest import Manifest, Normalization

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
    kept: list[Record] = []
    validation: list[Record] = []
    for record in shuffled:
        taken[record.text] += 1
        (validation if taken[record.text] <= per_class else kept).append(record)
    return kept, validation


def normalization(records: list[Record]) -> Normalization:
    """Return mean and standard deviation of the pixels of all images, which are grey."""
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(r.encoded))) for r in records])
    mean, std = round(float(pixels.mean()), 3), round(float(pixels.std()), 3)
    return Normalization((mean,) * 3, (std,) * 3)


def run(options: PrepareDigitsOptions, *_: object) -> None:
    """`python -m trainer prepare digits`; see `prepare_digits`."""
    prepare_digits(options.output)


def prepare_digits(output: str) -> Manifest:
    """Write the data set and its manifest, complete or not at all.

    Raises:
        DataError: The folder exists and contains something else.
    """
    train, validation = split(load_records(), VALIDATION_PER_CLASS, "digits")
    command = f"python -m trainer prepare digits --output {output}"
    return write_data_set(Path(output), train, validation, CLASSES, normalization(train), command)
