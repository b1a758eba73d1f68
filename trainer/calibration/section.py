"""The section of a run's page on its temperature."""

from common.page.parts import Block, Plots, Section, Table, Text
from common.page.plots import Scale, Series, plot
from trainer.calibration.record import Calibration, Reliability, read_calibration
from trainer.classification.trust import wilson
from trainer.report.page import percent
from trainer.report.run_data import Run


def sections(run: Run) -> list[Section]:
    """Return a section if the run has a calibration."""
    found = read_calibration(run.path)
    return [Section("calibration", "Calibration", _blocks(found))] if found else []


def _blocks(found: Calibration) -> list[Block]:
    if found.temperature is None:
        return [
            Text(
                f"No temperature fits the predictions after step {found.step:,}: they are all"
                " right, all wrong, or too few. The exported model has the probabilities as they"
                " are."
            )
        ]
    before, after = found.before, found.after
    drawn = plot(
        "Reliability",
        "fraction right, with its 95 % interval, by the mean probability of the predictions",
        "probability in %",
        [
            _series("before", before),
            _series("at the temperature", after),
            Series(
                "as probable as right",
                [(percents, (percents / 100,) * 3) for percents in (0, 100)],
                marked=False,
                dashes="4 3",
            ),
        ],
        scale=Scale(from_zero=True, percent=True),
        from_zero=True,
    )
    rows = [
        ["before", percent(before.error), f"{before.loss:.4f}"],
        ["at the temperature", percent(after.error), f"{after.loss:.4f}"],
    ]
    return [
        Text(
            f"After step {found.step:,} the logits are divided by {found.temperature:.4g}, which"
            " fits the held-out images best, so that probabilities are as often right as they say."
            " No predicted class changes. Each half of the images is measured with the temperature"
            " that fits the other half. An export of these weights uses the temperature of all."
        ),
        *([Plots([drawn])] if drawn else []),
        Table(
            "Held-out images",
            ("probabilities", "calibration error", "loss"),
            rows,
            "numbers",
        ),
    ]


def _series(name: str, found: Reliability) -> Series:
    ordered = (found.bins[number] for number in sorted(found.bins))
    points = []
    for one in ordered:
        low, high = wilson(one.right, one.count)
        points.append((round(100 * one.mean), (low, one.accuracy, high)))
    return Series(name, points)
