"""Images and sources for tests of augmentations."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.trainer.support.data_sets.image_files import Pixels, gradients
from trainer.config import DataConfig
from trainer.data.manifest import Split
from trainer.data.source import Source

SIZE = 48


def picture(size: int = SIZE) -> Pixels:
    """Slopes of all channels under noise, between 20 and 220."""
    noise = np.random.default_rng(0).normal(0, 12, [size, size, 3])
    return np.clip(gradients(size, size) * 0.7 + 35 + noise, 20, 220).astype(np.uint8)


def source(size: int = SIZE, seed: int = 0, **changes: Any) -> Source:
    config = DataConfig(**{"augment": "none", "flip": False, **changes})
    return Source(Path(), Split((), (), ("PNG",)), 10, size, config, seed)
