"""Options of calibration, and their combinations with others. Standard library only."""

from dataclasses import dataclass
from typing import Any, Final

from common.program import Command
from trainer.leaf import DENSE_TASK, DIVIDED_NETWORK, Exporter, Feature, Leaf


@dataclass(frozen=True)
class CalibrationOptions:
    """Probabilities that are as often right as they say."""

    temperature: bool = False
    """After the last step, find the number by which all logits are divided so that the held-out
    images' classes become most probable (temperature scaling, Guo et al. 2017), write it to
    calibration.json, and export the model with it. No prediction changes, only how sure it is."""


def _wanted(config: Any) -> bool:
    return config.of(CalibrationOptions).temperature  # type: ignore[no-any-return]


def _problems(config: Any) -> list[str]:
    if not _wanted(config):
        return []
    problems, option = [], "--calibration.temperature"
    if config.data.source == "synthetic":
        problems.append(f"{option}: synthetic data have no held-out images to fit it on")
    return problems


LEAF: Final = Leaf(
    key="calibration",
    options=CalibrationOptions,
    on_resume="free",
    features=(
        Feature(
            "calibration",
            "--calibration.temperature True",
            _wanted,
            {
                (DENSE_TASK,): "a temperature is fitted on one class per image",
                (DIVIDED_NETWORK,): "a rank has a part of the logits; run `calibrate` when the run"
                " is finished",
            },
        ),
    ),
    problems=_problems,
    predicted="trainer.extras.calibration.fit:calibrate_run",
    sections="trainer.extras.calibration.section:sections",
    exporter=Exporter(network="trainer.extras.calibration.network:calibrated"),
    commands=(
        Command(
            "calibrate",
            "use a model",
            "fit the temperature of a finished run's probabilities on its held-out images",
            "trainer.extras.calibration.fit:calibrate",
            "trainer.extras.calibration.options:CalibrateOptions",
        ),
    ),
)
