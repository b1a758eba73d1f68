"""The network of an export whose logits are divided by the temperature of its run."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.extras.calibration.record import FILE, read_calibration


class Calibrated(tf.Module):  # type: ignore[misc] # it has no types
    """A network that is called as the one that it contains."""

    def __init__(self, model: keras.Model, temperature: float) -> None:
        super().__init__()
        self._model, self._temperature = model, temperature

    @property
    def variables(self) -> list[tf.Variable]:
        """The variables of the network, in its order."""
        return list(self._model.variables)

    def __call__(self, inputs: tf.Tensor, *, training: bool) -> tf.Tensor:
        """Return the logits of normalised images, divided by the temperature."""
        return self._model(inputs, training=training) / self._temperature


def calibrated(run: Path, step: int, model: keras.Model) -> tuple[Any, Mapping[str, Any]] | None:
    """Return the network to export and facts for export.json; None if the run has no temperature
    for the weights of this step.
    """
    fitted = read_calibration(run)
    if fitted is None or fitted.used is None:
        return None
    if fitted.step != step:
        print(
            f"warning: {run / FILE}: is of step {fitted.step:,}, so the export of step {step:,} is"
            f" not calibrated; to change that, run: ml-trainer calibrate --run {run}",
            file=sys.stderr,
            flush=True,
        )
        return None
    facts = {"method": "temperature", "temperature": fitted.used}
    return Calibrated(model, fitted.used), {"calibration": facts}
