"""Options of `trainer calibrate`. Standard library only."""

from dataclasses import dataclass

from trainer.training.options import CheckpointOptions


@dataclass(frozen=True)
class CalibrateOptions(CheckpointOptions):
    """Find the temperature of a checkpoint's probabilities on the held-out images, and write it to
    calibration.json in the run folder; `export` then uses it.
    """
