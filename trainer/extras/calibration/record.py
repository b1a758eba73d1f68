"""`RUN/calibration.json`: the temperature of a run, and how sure its predictions are with and
without it. Standard library only.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from common.files import parse_json, write_atomically
from trainer.tasks.classification.trust import Bin, calibration_error

FILE: Final = "calibration.json"


@dataclass(frozen=True)
class Reliability:
    """Predictions of the held-out images at a temperature."""

    loss: float
    """Mean negative log-likelihood."""
    bins: Mapping[int, Bin]
    """Predictions by the bin of their probability."""

    @property
    def error(self) -> float:
        """Expected calibration error."""
        return calibration_error(self.bins)


@dataclass(frozen=True)
class Calibration:
    """How the probabilities of a run are calibrated."""

    step: int
    """Steps of the weights that it is for."""
    temperature: float | None
    """By which logits are divided; None if none could be fitted."""
    before: Reliability
    after: Reliability
    """With the temperature that is fitted on the other half of the images, so that no prediction is
    measured with a number that it has helped to choose."""

    @property
    def used(self) -> float | None:
        """The temperature that an export uses; None if there is none, or if it makes the
        calibration error of the held-out images larger.
        """
        return self.temperature if self.after.error <= self.before.error else None

    def save(self, run: Path) -> None:
        """Write it into the folder of its run, atomically."""
        data = {"schema": 1, **asdict(self), "used": self.used is not None}
        for name, reliability in (("before", self.before), ("after", self.after)):
            data[name]["calibration_error"] = reliability.error
        write_atomically(run / FILE, json.dumps(data, indent=1) + "\n")


def read_calibration(run: Path) -> Calibration | None:
    """Return the calibration of a run; None if there is none that can be read."""
    try:
        data = parse_json((run / FILE).read_text(encoding="utf-8"))
        before, after = (_reliability(data[name]) for name in ("before", "after"))
        step, temperature = int(data["step"]), data["temperature"]
        if temperature is None:
            return Calibration(step, None, before, after)
        numbers = (float(temperature), before.loss, after.loss, before.error, after.error)
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError):
        return None
    return Calibration(step, numbers[0], before, after) if all(map(isfinite, numbers)) else None


def _reliability(data: Mapping[str, Any]) -> Reliability:
    bins = {
        int(n): Bin(int(bin_["count"]), int(bin_["right"]), float(bin_["probability"]))
        for n, bin_ in data["bins"].items()
    }
    return Reliability(float(data["loss"]), bins)
