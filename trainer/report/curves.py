"""The curves of runs: which metrics of metrics.jsonl are plotted together, and their plots."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from common.page.parts import Plots, Section, Text
from common.page.plots import COLOURS, LOGARITHMIC, Plot, Point, Scale, plot
from common.page.plots import Series as Line
from trainer.leaves import TASKS
from trainer.report.run_data import Curve, Run

DASHES = ("", "6 3", "2 3", "6 3 2 3")
"""Dashes that distinguish runs of the same colour."""


@dataclass(frozen=True)
class Series:
    """One curve of a panel."""

    event: str
    key: str
    label: str
    marked: bool = False
    """Whether to mark each point, for metrics that are measured rarely."""
    compared: bool = True
    """Whether comparisons of runs show the curve."""
    about: str = ""
    """Sentence on its meaning, which its panel has if it shows the curve."""


@dataclass(frozen=True)
class Panel:
    """Content of one plot."""

    title: str
    reading: str
    """How to read the panel, in one line."""
    series: tuple[Series, ...]
    scale: Scale


OBJECTIVE = Panel(
    "Objective",
    "The loss that the optimizer lowers, with label smoothing and weights; not to be compared with"
    " the held-out loss.",
    (Series("train", "loss", "objective"),),
    Scale(from_zero=True),
)
LEARNING = (
    Panel(
        "Loss",
        "Mean loss of an image, without label smoothing and weights; if held-out rises while"
        " training falls, the model overfits. Training images are augmented.",
        (
            Series("train", "training_loss", "training"),
            Series("evaluation", "validation_loss", "held-out", marked=True),
        ),
        Scale(from_zero=True),
    ),
    *(
        Panel(
            "Accuracy",
            task.about,
            (
                Series("train", task.training.key, task.training.label),
                *(
                    Series(
                        "evaluation",
                        metric.key,
                        f"held-out {metric.label}",
                        marked=True,
                        compared=number == 0,
                        about=metric.about,
                    )
                    for number, metric in enumerate(task.evaluation)
                ),
            ),
            Scale(percent=True),
        )
        for task in TASKS.values()
    ),
    OBJECTIVE,
    Panel(
        "Learning rate",
        "Depends on the step alone; a restart must not make it jump.",
        (Series("train", "learning_rate", "learning rate"),),
        Scale(from_zero=True),
    ),
    Panel(
        "Gradient norm",
        "Norm at each interval's last step; a spike is a step that went too far.",
        (Series("train", "gradient_norm", "gradient norm"),),
        LOGARITHMIC,
    ),
    Panel(
        "Loss scale",
        "Factor on float16 losses; halves when a gradient overflows.",
        (Series("train", "loss_scale", "loss scale"),),
        LOGARITHMIC,
    ),
)
"""Panels of a run's progress."""

SPEED = (
    Panel(
        "Throughput",
        "Images per second of training, over all ranks.",
        (Series("train", "images_per_second", "images/s"),),
        Scale(from_zero=True, unit=" images/s"),
    ),
    Panel(
        "Data wait",
        "Part of the training time that rank 0 waits for data; a few percent are too much.",
        (Series("train", "data_wait_percent", "data wait"),),
        Scale(from_zero=True, unit=" %"),
    ),
    Panel(
        "Model FLOP/s utilisation",
        "Part of the GPUs' peak FLOP/s that the model's own operations reach.",
        (Series("train", "mfu_percent", "utilisation"),),
        Scale(from_zero=True, unit=" %"),
    ),
)


def plot_run(run: Run, panels: Sequence[Panel] = LEARNING) -> list[Plot]:
    """Return the plots of one run that have data, without that of an objective that is the training
    loss.
    """
    panels = [_explained(panel, [run], panel.series) for panel in _apart([run], panels)]
    saved = [(step, f"saved after step {step:,}") for step in run.checkpoints]
    return _plots(
        [
            [
                (run.curve(series.event, series.key), _line(series, series.label, number))
                for number, series in enumerate(panel.series, 1)
            ]
            for panel in panels
        ],
        panels,
        saved,
        _restarts(run),
    )


def _explained(panel: Panel, runs: Sequence[Run], series: Sequence[Series]) -> Panel:
    """Return a panel whose reading explains the series that runs have."""
    known = [
        s.about for s in series if s.about and any(r.curve(s.event, s.key).steps for r in runs)
    ]
    return replace(panel, reading=" ".join([panel.reading, *known]))


def plot_comparison(runs: Sequence[Run], labels: Sequence[str]) -> list[Plot]:
    """Return all plots with the curves of several runs, each run in its own colour; without that of
    objectives that are the training losses.
    """
    shown, explained = [], list[Panel]()
    for panel in _apart(runs, (*LEARNING, *SPEED)):
        compared = [series for series in panel.series if series.compared]
        explained.append(_explained(panel, runs, compared))
        shown.append(
            [
                (
                    run.curve(series.event, series.key),
                    replace(
                        _line(series, name, number % COLOURS + 1),
                        label=series.label if len(compared) > 1 else "",
                        dashes=DASHES[number // COLOURS % len(DASHES)],
                    ),
                )
                for number, (run, name) in enumerate(zip(runs, labels, strict=True))
                for series in compared
            ]
        )
    return _plots(shown, explained)


def _apart(runs: Sequence[Run], panels: Sequence[Panel]) -> Sequence[Panel]:
    same = (
        run.curve("train", "loss").is_close(run.curve("train", "training_loss")) for run in runs
    )
    return [panel for panel in panels if panel is not OBJECTIVE] if all(same) else panels


def _line(series: Series, name: str, colour: int) -> Line:
    return Line(name, (), colour=colour, marked=series.marked)


def curves_section(plots: Sequence[Plot], hint: str) -> Section:
    """Return the section of the curves; `hint` tells how to read them."""
    none = Text("No curves: metrics.jsonl has no metrics yet.")
    return Section("curves", "Curves", [Text(hint, hint=True), Plots(plots) if plots else none])


def _plots(
    shown: Sequence[Sequence[tuple[Curve, Line]]],
    panels: Sequence[Panel],
    saved: Sequence[Point] = (),
    starts: Sequence[Point] = (),
) -> list[Plot]:
    """Return the plots of panels, whose curves are given in their order."""
    plots = []
    for panel, curves in zip(panels, shown, strict=True):
        known = [(curve, line) for curve, line in curves if curve.steps]
        drawn = plot(
            panel.title,
            panel.reading,
            "step",
            [_filled(line, curve.thinned()) for curve, line in known],
            scale=panel.scale,
            from_zero=True,
            summary=" ".join(_in_words(curve, line, panel.scale) for curve, line in known),
            saved=saved,
            starts=starts,
        )
        plots += [drawn] if drawn else []
    return plots


def _filled(line: Line, curve: Curve) -> Line:
    return replace(
        line,
        ranges=[(n, (y, y, y)) for n, y in zip(curve.steps, curve.values, strict=True)],
        notes=["" if epoch is None else f"epoch {epoch:.2f}" for epoch in curve.epochs],
    )


def _restarts(run: Run) -> list[Point]:
    """Return the steps at which attempts but the first began, with their numbers."""
    restarts = sorted(run.attempts[1:], key=lambda attempt: (attempt.step, attempt.number))
    points: list[Point] = []
    for step, group in groupby(restarts, key=lambda attempt: attempt.step):
        numbers = [attempt.number for attempt in group]
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        points.append((step, f"attempt {span}"))
    return points


def _in_words(curve: Curve, line: Line, scale: Scale) -> str:
    values, steps = curve.values, curve.steps
    form = "{:.2%}" if scale.percent else "{:,.4g}" + scale.unit.replace("%", "percent")
    a, b, c, d = map(form.format, (values[0], values[-1], min(values), max(values)))
    name = f"{line.name}, {line.label}" if line.label else line.name
    return f"{name}: {a} at step {steps[0]:,}, {b} at step {steps[-1]:,}; from {c} to {d}."
