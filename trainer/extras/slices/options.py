"""Options of `trainer slices`. Standard library only."""

from dataclasses import dataclass

from trainer.extras.slices.leaf import SlicesOptions


@dataclass(frozen=True)
class SlicesCommandOptions(SlicesOptions):
    """Count the right predictions of a run's final evaluation in slices of the held-out images,
    write slices.csv into the run folder, and its page again.
    """

    run: str = "runs/latest"
    """Folder of the run."""

    data_dir: str | None = None
    """Folder of the data set, if it has moved since the training."""
