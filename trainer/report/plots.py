"""The curves as plotly figures."""

from collections.abc import Sequence
from itertools import groupby

import plotly.graph_objects as go

from trainer.report.data import Curve, Run
from trainer.report.figure import AXIS, Plot, plain, styled, to_json
from trainer.report.panels import PANELS, Line, Panel

SERIES = 8
"""Colours of a palette that stay apart also for colour-blind eyes; see style.css."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""Tell runs apart that share a colour."""

NAMED_RESTARTS = 3
"""Restarts up to which there is room for more than their numbers."""

_NAME = "%{fullData.name}"
"""What plotly's hover texts replace by the name of the curve."""


def plot_run(run: Run) -> list[Plot]:
    """All panels of one run that have something to show."""
    drawn = []
    for panel in PANELS:
        traces, words = [], []
        for place, line in enumerate(panel.lines):
            curve = run.curve(line.event, line.key)
            if curve.steps:
                colour = f"var(--series-{place + 1})"
                traces.append(_trace(curve, line, line.label, colour, "solid", panel))
                words.append(_in_words(curve, line.label, panel))
        if not traces:
            continue
        figure = _figure(panel, traces)
        _mark_checkpoints(figure, run)
        _mark_restarts(figure, run)
        drawn.append(_plot(panel, words, figure))
    return drawn


def plot_comparison(runs: Sequence[Run], labels: Sequence[str]) -> list[Plot]:
    """All panels with the curves of several runs, each run in its own colour."""
    drawn = []
    for panel in PANELS:
        traces, words = [], []
        lines = [line for line in panel.lines if line.compared]
        for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
            dash, named = DASHES[place // SERIES % len(DASHES)], False
            for line in lines:
                curve = run.curve(line.event, line.key)
                if not curve.steps:
                    continue
                trace = _trace(curve, line, label, run_colour(place), dash, panel)
                # One entry of the legend a run, which hides all its curves.
                trace.update(legendgroup=str(place), showlegend=not named)
                if len(lines) > 1:
                    trace.update(
                        opacity=1.0 if line.marked else 0.6,
                        hovertemplate=trace.hovertemplate.replace(_NAME, f"{_NAME}, {line.label}"),
                    )
                traces.append(trace)
                words.append(_in_words(curve, f"{label}, {line.label}", panel))
                named = True
        if traces:
            drawn.append(_plot(panel, words, _figure(panel, traces)))
    return drawn


def run_colour(place: int) -> str:
    """The colour of a run in a comparison."""
    return f"var(--series-{place % SERIES + 1})"


def _trace(curve: Curve, line: Line, name: str, colour: str, dash: str, panel: Panel) -> go.Scatter:
    thin = curve.thinned()
    epochs = ["" if epoch is None else f"epoch {epoch:.2f}" for epoch in thin.epochs]
    return go.Scatter(
        x=thin.steps,
        y=thin.values,
        customdata=epochs,
        # Names of runs are anybody's.
        name=plain(name),
        mode="lines+markers" if line.marked or len(thin.steps) == 1 else "lines",
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
            # Else plotly writes every digit of a decade.
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
