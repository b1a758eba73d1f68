"""The curves of runs: which metrics of metrics.jsonl are plotted together, and their plots."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from common.page.parts import Plots, Section, Text
from common.page.plots import COLOURS, Plot, Scale, curves
from common.page.plots import Curve as Drawn
from trainer.report.run_data import Curve, Run
from trainer.task_descriptions import DESCRIPTIONS

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


@dataclass(frozen=True)
class Panel:
    """Content of one plot."""

    id: str
    title: str
    reading: str
    """How to read the panel, in one line."""
    series: tuple[Series, ...]
    scale: Scale = Scale()


PANELS = (
    Panel(
        "loss",
        "Loss",
        "Mean cross-entropy; if held-out rises while training falls, the model overfits.",
        (
            Series("train", "loss", "training"),
            Series("evaluation", "validation_loss", "held-out", marked=True),
        ),
        Scale(from_zero=True),
    ),
    *(
        Panel(
            f"accuracy-of-{name}",
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
                    )
                    for number, metric in enumerate(task.evaluation)
                ),
            ),
            Scale(form="percent"),
        )
        for name, task in DESCRIPTIONS.items()
    ),
    Panel(
        "rate",
        "Learning rate",
        "Depends on the step alone; a restart must not make it jump.",
        (Series("train", "learning_rate", "learning rate"),),
        Scale(from_zero=True),
    ),
    Panel(
        "throughput",
        "Throughput",
        "Images per second of training, over all ranks.",
        (Series("train", "images_per_second", "images/s"),),
        Scale(from_zero=True, unit=" images/s"),
    ),
    Panel(
        "wait",
        "Data wait",
        "Part of the training time that rank 0 waits for data; a few percent are too much.",
        (Series("train", "data_wait_percent", "data wait"),),
        Scale(from_zero=True, unit=" %"),
    ),
    Panel(
        "mfu",
        "Model FLOP/s utilisation",
        "Part of the GPUs' peak FLOP/s that the model's own operations reach.",
        (Series("train", "mfu_percent", "utilisation"),),
        Scale(from_zero=True, unit=" %"),
    ),
    Panel(
        "gradient",
        "Gradient norm",
        "Norm at each interval's last step; a spike is a step that went too far.",
        (Series("train", "gradient_norm", "gradient norm"),),
        Scale(log=True),
    ),
    Panel(
        "scale",
        "Loss scale",
        "Factor on float16 losses; halves when a gradient overflows.",
        (Series("train", "loss_scale", "loss scale"),),
        Scale(log=True),
    ),
)


def plot_run(run: Run) -> list[Plot]:
    """Return all plots of one run that have data."""
    found = []
    for panel in PANELS:
        scale = replace(
            panel.scale,
            marks=[(step, f"saved after step {step:,}") for step in run.checkpoints],
            starts=_restarts(run),
        )
        shown = [
            (run.curve(series.event, series.key), Drawn(series.label, (), number, series.marked))
            for number, series in enumerate(panel.series, 1)
        ]
        found.append(_plot(panel, shown, scale))
    return [plot for plot in found if plot]


def plot_comparison(runs: Sequence[Run], labels: Sequence[str]) -> list[Plot]:
    """Return all plots with the curves of several runs, each run in its own colour."""
    found = []
    for panel in PANELS:
        compared = [series for series in panel.series if series.compared]
        shown = [
            (
                run.curve(series.event, series.key),
                Drawn(
                    name,
                    (),
                    number % COLOURS + 1,
                    series.marked,
                    series.label if len(compared) > 1 else "",
                    DASHES[number // COLOURS % len(DASHES)],
                ),
            )
            for number, (run, name) in enumerate(zip(runs, labels, strict=True))
            for series in compared
        ]
        found.append(_plot(panel, shown, panel.scale))
    return [plot for plot in found if plot]


def curves_section(plots: Sequence[Plot], hint: str) -> Section:
    """Return the section of the curves; `hint` tells how to read them."""
    none = Text("No curves: metrics.jsonl has no metrics yet.")
    return Section("curves", "Curves", [Text(hint, hint=True), Plots(plots) if plots else none])


def _plot(panel: Panel, shown: Sequence[tuple[Curve, Drawn]], scale: Scale) -> Plot | None:
    known = [(curve, drawn) for curve, drawn in shown if curve.steps]
    summary = " ".join(_in_words(curve, drawn, scale) for curve, drawn in known)
    lines = []
    for curve, drawn in known:
        thin = curve.thinned()
        epochs = ["" if epoch is None else f"epoch {epoch:.2f}" for epoch in thin.epochs]
        points = list(zip(thin.steps, thin.values, epochs, strict=True))
        lines.append(replace(drawn, points=points))
    return curves(panel.id, panel.title, panel.reading, "step", lines, scale, summary=summary)


def _restarts(run: Run) -> list[tuple[float, str]]:
    """Return the steps at which attempts but the first began, with their numbers."""
    restarts = sorted(run.attempts[1:], key=lambda attempt: (attempt.step, attempt.number))
    found: list[tuple[float, str]] = []
    for step, group in groupby(restarts, key=lambda attempt: attempt.step):
        numbers = [attempt.number for attempt in group]
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        found.append((step, f"attempt {span}"))
    return found


def _in_words(curve: Curve, drawn: Drawn, scale: Scale) -> str:
    values, steps = curve.values, curve.steps
    form = "{:.2%}" if scale.form else "{:,.4g}" + scale.unit.replace("%", "percent")
    a, b, c, d = map(form.format, (values[0], values[-1], min(values), max(values)))
    name = f"{drawn.name}, {drawn.label}" if drawn.label else drawn.name
    return f"{name}: {a} at step {steps[0]:,}, {b} at step {steps[-1]:,}; from {c} to {d}."
