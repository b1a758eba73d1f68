"""The embedded data set: scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, 10 classes.

They are real (UCI's Optical Recognition of Handwritten Digits) and come with a package that is
installed anyway, so a first training needs no download.
"""

import io
import random
from pathlib import Path

import numpy as np
from PIL import Image

from trainer.data.builtin.dataset import write_dataset
from trainer.data.example import Record
from trainer.data.manifest import Manifest

HELD_OUT_PER_CLASS = 36
CLASSES = tuple(str(digit) for digit in range(10))


def load_records() -> list[Record]:
    """All digits as PNG records, in scikit-learn's order."""
    from sklearn.datasets import load_digits

    data = load_digits()
    records = []
    for number, (pixels, label) in enumerate(zip(data.images, data.target, strict=True)):
        image = Image.fromarray(np.round(pixels * (255 / 16)).astype(np.uint8))
        buffer = io.BytesIO()
        image.save(buffer, format="PNG")
        encoded = buffer.getvalue()
        height, width = pixels.shape
        name = f"digit-{number:04d}.png"
        records.append(Record(encoded, "PNG", height, width, int(label), str(label), name))
    return records


def split(records: list[Record], per_class: int, key: str) -> tuple[list[Record], list[Record]]:
    """Take `per_class` records of each class aside, chosen by a text; both parts are shuffled."""
    shuffled = sorted(records, key=lambda record: record.filename)
    random.Random(key).shuffle(shuffled)
    taken = dict.fromkeys(CLASSES, 0)
    kept: list[Record] = []
    held_out: list[Record] = []
    for record in shuffled:
        taken[record.text] += 1
        (held_out if taken[record.text] <= per_class else kept).append(record)
    return kept, held_out


def statistics(records: list[Record]) -> tuple[float, float]:
    """Mean and standard deviation of the pixels of all images, 0 to 255."""
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(r.encoded))) for r in records])
    return round(float(pixels.mean()), 3), round(float(pixels.std()), 3)


def prepare_digits(output: str) -> Manifest:
    """Write the data set and its manifest, complete or not at all.

    Raises:
        DataError: the folder exists and holds something else.
    """
    train, held_out = split(load_records(), HELD_OUT_PER_CLASS, "digits")
    command = f"python -m trainer prepare digits --output {output}"
    return write_dataset(Path(output), train, held_out, CLASSES, statistics(train), command)
