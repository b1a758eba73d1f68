"""The curves of runs: which metrics of metrics.jsonl are plotted together, and their plots."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import plotly.graph_objects as go

from trainer.report.plots import AXIS, Plot, plain, styled, to_json
from trainer.report.run_data import Curve, Run
from trainer.tasks.table import TASKS

COLOURS = 8
"""Colours of the palette, distinguishable with colour blindness; see common/page/style.css."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""Dash styles that distinguish runs of the same colour."""

NAMED_RESTARTS = 3
"""Most restarts that are labelled in full; with more, only their numbers fit."""

_NAME = "%{fullData.name}"
"""Placeholder that plotly's hover texts replace with the name of the curve."""


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
    ticks: str = ""
    """d3 format of the axis; plotly chooses one if it is empty."""
    hover: str = ",.4~g"
    unit: str = ""
    scale: Literal["linear", "log"] = "linear"
    from_zero: bool = False


PANELS = (
    Panel(
        "loss",
        "Loss",
        "Mean cross-entropy; if held-out rises while training falls, the model overfits.",
        (
            Series("train", "loss", "training"),
            Series("evaluation", "validation_loss", "held-out", marked=True),
        ),
        from_zero=True,
    ),
    *(
        Panel(
            task.panel,
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
            ticks=".0%",
            hover=".2%",
        )
        for task in TASKS.values()
    ),
    Panel(
        "rate",
        "Learning rate",
        "Depends on the step alone; a restart must not make it jump.",
        (Series("train", "learning_rate", "learning rate"),),
        from_zero=True,
    ),
    Panel(
        "throughput",
        "Throughput",
        "Images per second of training, over all ranks.",
        (Series("train", "images_per_second", "images/s"),),
        ticks="~s",
        hover=",.1f",
        unit=" images/s",
        from_zero=True,
    ),
    Panel(
        "wait",
        "Data wait",
        "Part of the training time that rank 0 waits for data; a few percent are too much.",
        (Series("train", "data_wait_percent", "data wait"),),
        hover=".1f",
        unit=" %",
        from_zero=True,
    ),
    Panel(
        "mfu",
        "Model FLOP/s utilisation",
        "Part of the GPUs' peak FLOP/s that the model's own operations reach.",
        (Series("train", "mfu_percent", "utilisation"),),
        hover=".1f",
        unit=" %",
        from_zero=True,
    ),
    Panel(
        "gradient",
        "Gradient norm",
        "Norm at each interval's last step; a spike is a step that went too far.",
        (Series("train", "gradient_norm", "gradient norm"),),
        ticks="~g",
        scale="log",
    ),
    Panel(
        "scale",
        "Loss scale",
        "Factor on float16 losses; halves when a gradient overflows.",
        (Series("train", "loss_scale", "loss scale"),),
        ticks="~g",
        scale="log",
    ),
)


def plot_run(run: Run) -> list[Plot]:
    """Return all plots of one run that have data."""
    drawn = []
    for panel in PANELS:
        traces, words = [], []
        for number, series in enumerate(panel.series):
            curve = run.curve(series.event, series.key)
            if curve.steps:
                colour = f"var(--series-{number + 1})"
                traces.append(_trace(curve, series, series.label, colour, "solid", panel))
                words.append(_in_words(curve, series.label, panel))
        if not traces:
            continue
        figure = _figure(panel, traces)
        _mark_checkpoints(figure, run)
        _mark_restarts(figure, run)
        drawn.append(_plot(panel, words, figure))
    return drawn


def plot_comparison(runs: Sequence[Run], labels: Sequence[str]) -> list[Plot]:
    """Return all plots with the curves of several runs, each run in its own colour."""
    drawn = []
    for panel in PANELS:
        traces, words = [], []
        panel_series = [series for series in panel.series if series.compared]
        for number, (run, label) in enumerate(zip(runs, labels, strict=True)):
            dash, named = DASHES[number // COLOURS % len(DASHES)], False
            for series in panel_series:
                curve = run.curve(series.event, series.key)
                if not curve.steps:
                    continue
                trace = _trace(curve, series, label, run_colour(number), dash, panel)
                # One legend entry per run, which hides all its curves.
                trace.update(legendgroup=str(number), showlegend=not named)
                if len(panel_series) > 1:
                    trace.update(
                        opacity=1.0 if series.marked else 0.6,
                        hovertemplate=trace.hovertemplate.replace(
                            _NAME, f"{_NAME}, {series.label}"
                        ),
                    )
                traces.append(trace)
                words.append(_in_words(curve, f"{label}, {series.label}", panel))
                named = True
        if traces:
            drawn.append(_plot(panel, words, _figure(panel, traces)))
    return drawn


def run_colour(number: int) -> str:
    """Return the colour of a run in a comparison."""
    return f"var(--series-{number % COLOURS + 1})"


def _trace(
    curve: Curve, series: Series, name: str, colour: str, dash: str, panel: Panel
) -> go.Scatter:
    thin = curve.thinned()
    epochs = ["" if epoch is None else f"epoch {epoch:.2f}" for epoch in thin.epochs]
    return go.Scatter(
        x=thin.steps,
        y=thin.values,
        customdata=epochs,
        # Run names may contain markup.
        name=plain(name),
        mode="lines+markers" if series.marked or len(thin.steps) == 1 else "lines",
        line={"color": colour, "width": 2, "dash": dash},
        marker={"size": 6},
        hovertemplate=f"%{{y:{panel.hover}}}{panel.unit}<extra>{_NAME} · %{{customdata}}</extra>",
    )


def _plot(panel: Panel, words: Sequence[str], figure: go.Figure) -> Plot:
    return Plot(panel.id, panel.title, panel.reading, " ".join(words), to_json(figure))


def _figure(panel: Panel, traces: Sequence[go.Scatter]) -> go.Figure:
    figure = styled(traces)
    figure.update_layout(
        hovermode="x unified",
        xaxis=AXIS
        | {
            "showgrid": False,
            "rangemode": "tozero",
            "title": {"text": "step", "standoff": 8},
            "hoverformat": ",",
            "unifiedhovertitle": {"text": "step %{x:,}"},
        },
        yaxis=AXIS
        | {
            "tickformat": panel.ticks or None,
            "ticksuffix": panel.unit if panel.unit == " %" else None,
            "type": panel.scale,
            # Otherwise plotly labels every digit of a decade.
            "nticks": 3 if panel.scale == "log" else None,
            "rangemode": "tozero" if panel.from_zero else "normal",
        },
    )
    return figure


def _mark_checkpoints(figure: go.Figure, run: Run) -> None:
    steps = run.checkpoints
    if not steps:
        return
    figure.add_scatter(
        x=steps,
        y=[0.0] * len(steps),
        yaxis="y2",
        name="checkpoint",
        mode="markers",
        marker={"symbol": "triangle-up", "size": 7, "color": "var(--muted)"},
        cliponaxis=False,
        showlegend=False,
        hovertemplate="saved after step %{x:,}<extra>checkpoint</extra>",
    )
    hidden = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    figure.update_layout(yaxis2=hidden)


def _mark_restarts(figure: go.Figure, run: Run) -> None:
    restarts = sorted(run.attempts[1:], key=lambda attempt: (attempt.step, attempt.number))
    groups = {
        step: [attempt.number for attempt in group]
        for step, group in groupby(restarts, key=lambda attempt: attempt.step)
    }
    for step, numbers in groups.items():
        span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
        figure.add_vline(
            x=step,
            line={"dash": "dot", "width": 1, "color": "var(--muted)"},
            annotation={
                "text": f"attempt {span}" if len(groups) <= NAMED_RESTARTS else span,
                "font": {"size": 11},
                "xanchor": "center",
                "yanchor": "bottom",
            },
        )


def _in_words(curve: Curve, label: str, panel: Panel) -> str:
    first, last, steps = curve.values[0], curve.values[-1], curve.steps
    low, high = min(curve.values), max(curve.values)
    form = "{:.2%}" if panel.hover.endswith("%") else "{:,.4g}" + panel.unit.replace("%", "percent")
    a, b, c, d = (form.format(value) for value in (first, last, low, high))
    return f"{label}: {a} at step {steps[0]:,}, {b} at step {steps[-1]:,}; from {c} to {d}."
