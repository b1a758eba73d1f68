"""The section of a run's page on its temperature."""

from common.page.parts import Block, Columns, Section, Table, Text
from trainer.extras.calibration.record import Calibration, read_calibration
from trainer.report.page import percent
from trainer.report.run_data import Run
from trainer.tasks.classification.report import reliability


def sections(run: Run) -> list[Section]:
    """Return a section if the run has a calibration."""
    fitted = read_calibration(run.path)
    return [Section("calibration", "Calibration", _blocks(fitted))] if fitted else []


def _blocks(fitted: Calibration) -> list[Block]:
    if fitted.temperature is None:
        return [
            Text(
                f"No temperature fits the predictions after step {fitted.step:,}: they are all"
                " right, all wrong, or too few. The exported model has the probabilities as they"
                " are."
            )
        ]
    before, after = fitted.before, fitted.after
    drawn = reliability("Reliability", {"before": before.bins, "at the temperature": after.bins})
    rows = [
        ["before", percent(before.error), f"{before.loss:.4f}"],
        ["at the temperature", percent(after.error), f"{after.loss:.4f}"],
    ]
    heads = ("probabilities", "calibration error", "loss")
    use = (
        "An export of these weights uses the temperature of all."
        if fitted.used
        else "It makes the calibration error larger, so an export does not use it."
    )
    return [
        Text(
            f"A temperature of {fitted.temperature:.4g}, by which the logits after step"
            f" {fitted.step:,} are divided, fits the held-out images best. No predicted class"
            " changes. Each half of the images is measured with the temperature that fits the"
            f" other half. {use}"
        ),
        Columns([*drawn, Table("Held-out images", heads, rows, "numbers")]),
    ]
