"""Options of the commands that write embedded and synthetic data sets. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from trainer.config import Positive


@dataclass(frozen=True)
class PrepareDigitsOptions:
    """Write scikit-learn's digits as TFRecords: 1,437 training images and 360 held-out images."""

    output: str = "data/digits"
    """Folder to write; left unchanged if it already holds the same data set."""

    source = "digits"


@dataclass(frozen=True)
class PrepareSyntheticOptions:
    """Write JPEGs of noise as TFRecords, 500 x 375 pixels and 117 KB on average: for measuring what
    reading photographs costs, not for learning.
    """

    output: str = "data/synthetic"
    """Folder to write; left unchanged if it already holds the same data set."""

    images: Annotated[int, Positive] = 1000
    """Training images; a tenth as many are held out."""
