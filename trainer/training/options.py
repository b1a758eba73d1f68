"""Options of commands that evaluate a checkpoint. Standard library only."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CheckpointOptions:
    """A checkpoint of a run, and the data set that it is evaluated on."""

    run: str = "runs/latest"
    """Folder of the run."""

    checkpoint: Literal["last", "best"] | None = None
    """last: the newest valid checkpoint; best: the best kept checkpoint by its evaluation. None is
    last; with early stopping, best."""

    data_dir: str | None = None
    """Folder of the data set, if it has moved since the training."""

    accept_changed_code: bool = False
    """Build your own network from the files of the builder as they are now, if they have changed;
    otherwise it is built from those that the run keeps."""


@dataclass(frozen=True)
class EvaluateOptions(CheckpointOptions):
    """Evaluate a checkpoint of a run, on its held-out images or on others. The result on others,
    with a page, is in RUN/evaluations.
    """

    data_dir: str | None = None
    """Folder of the data set, if it has moved since the training; or of another one with the same
    classes, such as that of another hospital."""

    split: Literal["validation", "test", "all"] = "validation"
    """Images to evaluate: those held out for evaluation, which chose the weights if the best ones
    are kept; those of the split for tests; or all of a data set of which none was trained on."""

    json: bool = False
    """Print one JSON object: the loss, the metrics and the number of images."""
