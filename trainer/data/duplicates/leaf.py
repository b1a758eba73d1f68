"""The leaf of near-duplicates. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from common.annotations import Bounds
from common.program import Command
from trainer.leaf import Leaf


@dataclass(frozen=True)
class DuplicateOptions:
    """What to do about held-out images with near-duplicates in the training split."""

    near_duplicates: Literal["auto", "off", "report", "refuse"] = "auto"
    """Find held-out images with near-duplicates in the training split, which make every metric too
    good: report counts them and lists pairs in near-duplicates.csv and on the page of `inspect`;
    refuse also ends without a data set if there are any. Nothing is removed. The search decodes
    every image, which takes seconds for some thousands, so auto reports them in data sets of up to
    20,000 images, and does not look for them in larger ones."""

    near_distance: Annotated[int, Bounds(at_least=0, at_most=6)] = 4
    """Most bits, of the 64 of a perceptual hash, in which near-duplicates differ; 0 finds images
    that were only scaled or encoded again."""


LEAF: Final = Leaf(
    commands=(
        Command(
            "near-duplicates",
            "data",
            "find held-out images with near-duplicates in the training split",
            "trainer.data.duplicates.check:run",
            "trainer.data.duplicates.options:NearDuplicatesOptions",
        ),
    ),
)
