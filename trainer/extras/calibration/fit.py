"""Fits the temperature of a run on its held-out images, over all ranks."""

from collections.abc import Iterable
from math import fsum
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.errors import ConfigError
from trainer.distributed.communicator import Alone, Communicator
from trainer.extras.calibration.options import CalibrateOptions
from trainer.extras.calibration.record import FILE, Calibration, Reliability
from trainer.extras.calibration.temperature import fit, largest, sums
from trainer.leaves import tell_rewritten
from trainer.report.write import PAGE, write_report
from trainer.run_folder import RunFolder
from trainer.tasks.classification.leaf import CLASSIFICATION
from trainer.tasks.classification.trust import BINS, Bin, bin_of
from trainer.training.evaluator import open_checkpoint
from trainer.training.predicted import Predicted

Array = np.ndarray[Any, Any]

EXPORT: Final = "to export the model with it, run: ml-trainer export"


def calibrate_run(predicted: Predicted) -> None:
    """Fit the temperature of a run's final weights, and write calibration.json. Every rank must
    call it, and computes the logits of its own share once.
    """
    fitted = calibration(predicted.outputs(), predicted.first, predicted.step, predicted.world)
    if predicted.world.rank == 0:
        fitted.save(predicted.folder)
        predicted.say(words(fitted))


def calibrate(options: CalibrateOptions) -> None:
    """`ml-trainer calibrate`: fit the temperature of a checkpoint, and print its effect.

    Raises:
        ConfigError: The run's task has not one class per image.
    """
    run = RunFolder(Path(options.run))
    if run.read().config.task != CLASSIFICATION.name:
        raise ConfigError([f"{run.path}: a temperature is fitted on one class per image"])
    opened = open_checkpoint(options)
    outputs = opened.evaluator.outputs(opened.data.validation())
    fitted = calibration(outputs, 0, opened.checkpoint.step, Alone())
    fitted.save(run.path)
    if (run.path / PAGE).exists():
        write_report([run.path])
    tell_rewritten(run.path, FILE, PAGE)
    use = "" if fitted.used is None else f"; {EXPORT} --run {run.path}"
    print(f"{run.path / FILE}: {words(fitted)}{use}")


def calibration(
    outputs: Iterable[tuple[Array, Array]], first: int, step: int, world: Communicator
) -> Calibration:
    """Fit the temperature of some weights; all ranks must call it, and all return the same.

    Args:
        outputs: Logits, float32 [n, classes], and classes, int32 [n], of this rank's share.
        first: First example of that share in the split.
        step: Steps of the weights.
        world: Ranks, which hold consecutive shares.
    """
    parts = list(outputs)
    logits, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    halves: Array = (np.arange(first, first + len(labels)) % 2).astype(bool)

    def fitted(chosen: Array) -> float | None:
        own = logits[chosen], labels[chosen]
        return fit(lambda inverse: _total(sums(*own, inverse), world))

    temperature = fitted(np.ones_like(halves))
    others = [fitted(~halves), fitted(halves)]
    # Without a temperature for each half, as for few images, that of all is measured.
    used = [other or temperature or 1.0 for other in others] if None not in others else None
    before = _reliability(logits, labels, np.ones(len(labels)), world)
    scales = np.where(halves, *used) if used else np.full(len(labels), temperature or 1.0)
    return Calibration(step, temperature, before, _reliability(logits, labels, scales, world))


def words(fitted: Calibration) -> str:
    """Return the effect of a calibration, in words."""
    before, after = fitted.before, fitted.after
    if fitted.temperature is None:
        return (
            "no temperature fits: the held-out images are all right, all wrong or too few, so the"
            " probabilities stay as they are"
        )
    return (
        f"temperature {fitted.temperature:.4g}: the calibration error of held-out images goes from"
        f" {before.error:.2%} to {after.error:.2%}, their loss from {before.loss:.4f} to"
        f" {after.loss:.4f}" + ("" if fitted.used else "; worse, so it is not used")
    )


def _reliability(
    logits: Array, labels: Array, temperatures: Array, world: Communicator
) -> Reliability:
    """Return the reliability of predictions, each at a temperature of its own."""
    scaled = logits / temperatures[:, None]
    probabilities, right = largest(scaled, 1.0), scaled.argmax(1) == labels
    numbers = np.array([bin_of(probability) for probability in probabilities], int)
    columns = [np.ones_like(probabilities), right, probabilities]
    counted = np.stack([np.bincount(numbers, column, BINS) for column in columns])
    loss = sums(scaled, labels, 1.0)[0]
    *flat, loss, count = _total(np.array([*counted.ravel(), loss, len(labels)]), world)
    bins = {
        number: Bin(round(images), round(hits), float(total))
        for number, (images, hits, total) in enumerate(
            zip(*np.reshape(flat, (3, BINS)), strict=True)
        )
        if images
    }
    return Reliability(float(loss / count), bins)


def _total(mine: Array, world: Communicator) -> Array:
    """Return the sum of an array over all ranks."""
    return np.array([fsum(column) for column in zip(*world.gather(mine.tolist()), strict=True)])
