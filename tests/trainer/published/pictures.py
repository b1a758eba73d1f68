"""The images in the files of this folder. Standard library and numpy only."""

import numpy as np
import numpy.typing as npt

CLASSES = ("ant", "bee, wild", "chat noir", "ücker")
COUNTS = {"train": 130, "validation": 33, "test": 12}


def picture(split: str, number: int) -> npt.NDArray[np.uint8]:
    """Return the pixels of an image."""
    seed = [*split.encode(), number]
    return np.random.default_rng(seed).integers(0, 256, (8, 9, 3), np.uint8)


def label(split: str, number: int) -> int:
    """Return the class of an image; all classes are in each split."""
    return (number * 7 + len(split)) % len(CLASSES)
