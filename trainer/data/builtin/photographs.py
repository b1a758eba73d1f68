"""Windows of photographs, on which embedded data sets are drawn."""

import random
from typing import Any

import numpy as np
from PIL import Image

Array = np.ndarray[Any, Any]
TRAINING, VALIDATION = "china.jpg", "flower.jpg"
"""The two photographs of scikit-learn, which is installed anyway: training images show the one,
held-out images the other one."""


def window(photograph: Array, size: int, chance: random.Random) -> Array:
    """Return a random square of a photograph, uint8 [size, size, 3]: of random size, turned,
    inverted or not, and with its colour channels in random order, so that one photograph is varied.
    """
    side = chance.randint(size, min(photograph.shape[:2]))
    y, x = (chance.randint(0, length - side) for length in photograph.shape[:2])
    square = Image.fromarray(photograph[y : y + side, x : x + side])
    small = np.asarray(square.resize((size, size), Image.Resampling.BOX))
    turned = np.rot90(small, chance.randrange(4))[..., chance.sample(range(3), 3)]
    return np.ascontiguousarray(255 - turned if chance.random() < 0.5 else turned)


def contrasting(*, dark: bool, chance: random.Random) -> Array:
    """Return a colour, float64 [3], that differs from a dark or from a bright background."""
    return np.array([chance.uniform(165, 255) if dark else chance.uniform(0, 90) for _ in "rgb"])
