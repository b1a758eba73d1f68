"""What leaves see of the final evaluation of a run: the interface of `Leaf.predicted`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.tasks.task import Array, Predictions


@dataclass(frozen=True)
class Predicted:
    """The final evaluation of a run on one rank, after its files were written on rank 0."""

    config: TrainConfig
    folder: Path
    """Folder of the run."""
    step: int
    """Steps of the weights."""
    world: Communicator
    predictions: Predictions
    """Predictions for the whole split."""
    class_names: tuple[str, ...]
    first: int
    """First example of this rank's share of the split."""
    outputs: Callable[[], Iterator[tuple[Array, Array]]]
    """Computes the logits, float32 [n, ...], and the targets of this rank's share, in parts."""
    names: Callable[[], Iterator[str]]
    """Reads the names of all records of the split, in its order; raises DataError if one cannot be
    read."""
    say: Callable[[str], None]
    """Prints a line, on rank 0 alone."""
