"""Options of `trainer near-duplicates`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Positional
from trainer.config import NotNegative


@dataclass(frozen=True)
class NearDuplicatesOptions:
    """List the held-out images of a data set of which its training split has nearly the same, in
    near-duplicates.csv, whatever its files are and however it was prepared.
    """

    folder: Annotated[str, Positional("DIR")] = ""
    """Folder of the data set."""

    near_distance: Annotated[int, Bounds(at_least=0, at_most=6)] = 4
    """Most bits, of the 64 of a perceptual hash, in which near-duplicates differ."""

    processes: Annotated[int, NotNegative] = 0
    """Processes that read; 0 is one per core."""
