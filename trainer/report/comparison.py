"""The page that compares several runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from common.page.markup import ABSENT, section, text
from trainer.report.curves import plot_comparison, run_colour
from trainer.report.page import duration, figures, page, percent, table
from trainer.report.run_data import IDENTIFYING, Run, options, show_option


@dataclass(frozen=True)
class ResultColumn:
    """One column of the results."""

    title: str
    get: Callable[[Run], float | None]
    show: Callable[[float], str]
    better: Callable[[Sequence[float]], float] | None = None
    """Function that selects the best value; None if neither large nor small values are better."""


_COLUMNS = (
    ResultColumn("held-out top-1", lambda run: run.summary.top1, percent, max),
    ResultColumn("held-out top-5", lambda run: run.summary.top5, percent, max),
    ResultColumn("held-out loss", lambda run: run.summary.loss, "{:.4f}".format, min),
    ResultColumn("images/s", lambda run: run.summary.images_per_second, "{:,.1f}".format, max),
    ResultColumn("time", lambda run: run.summary.seconds, duration, min),
    ResultColumn("steps", lambda run: run.summary.step, "{:,.0f}".format),
    ResultColumn(
        "ranks", lambda run: run.attempts[-1].ranks if run.attempts else None, "{:.0f}".format
    ),
    ResultColumn("attempts", lambda run: len(run.attempts), "{:,.0f}".format),
)


def comparison_page(runs: Sequence[Run]) -> str:
    """Return an HTML page that compares several runs."""
    labels = distinct_labels(runs)
    plots = plot_comparison(runs, labels)
    hint = (
        '<p class="hint">Each run has one colour; curves with markers are of held-out images.'
        " Drag with a mouse to zoom, double-click to reset; click a name to hide its"
        " curves.</p>\n"
    )
    sections = {
        "results": ("Results", _results(runs, labels)),
        "options": ("Options that differ", _options(runs, labels)),
        "curves": ("Curves", hint + figures(plots)),
    }
    body = (
        f'<header><h1>{len(runs)} runs</h1>\n<p class="lead">{text(" · ".join(labels))}</p>'
        "</header>\n<main>\n"
        + "".join(section(identity, *parts) for identity, parts in sections.items())
        + "</main>\n<footer>Made from the files of the runs by"
        " <code>python -m trainer report RUN RUN...</code>. This page loads nothing.</footer>\n"
    )
    return page(f"{', '.join(labels)} · comparison of runs", body, plots)


def distinct_labels(runs: Sequence[Run]) -> list[str]:
    """Return a label for each run: its name, or its folder if several runs have the same name."""
    names = [run.name for run in runs]
    return [run.name if names.count(run.name) == 1 else str(run.path.resolve()) for run in runs]


def _results(runs: Sequence[Run], labels: Sequence[str]) -> str:
    # An unfinished run has no final result and no total time to compare.
    best = {
        figure.title: figure.better(values)
        for figure in _COLUMNS
        if figure.better
        and len(
            values := [
                v for run in runs if run.summary.final and (v := figure.get(run)) is not None
            ]
        )
        > 1
    }
    rows: list[list[str]] = []
    for run, label in zip(runs, labels, strict=True):
        cells = [_cell(figure, run, best) for figure in _COLUMNS]
        state = "" if run.summary.final else f" ({run.state}: so far)"
        key = f'<span class="key" style="--colour: {run_colour(len(rows))}"></span>'
        rows.append([key + text(label + state), *cells])
    caption = (
        "The best finished run is bold: the highest accuracy and images/s, the lowest loss and"
        " time. A single run per setting says little about small differences."
    )
    return table(caption, ["run", *(figure.title for figure in _COLUMNS)], rows, "figures")


def _cell(figure: ResultColumn, run: Run, best: Mapping[str, float]) -> str:
    value = figure.get(run)
    if value is None:
        return ABSENT
    shown = figure.show(value)
    is_best = run.summary.final and best.get(figure.title) == value
    return f"<strong>{shown}</strong>" if is_best else shown


def _options(runs: Sequence[Run], labels: Sequence[str]) -> str:
    known = [
        (label, options(run.config)) for run, label in zip(runs, labels, strict=True) if run.config
    ]
    missing = [label for run, label in zip(runs, labels, strict=True) if run.config is None]
    note = ""
    if missing:
        note = f"<p>The configuration of {text(', '.join(missing))} cannot be read.</p>\n"
    if len(known) < 2:
        return note
    first = known[0][1]
    keys = [
        key
        for key in first
        if key not in IDENTIFYING and any(values[key] != first[key] for _, values in known)
    ]
    if not keys:
        return f"{note}<p>None: the runs were started with the same options.</p>\n"
    rows = [
        [f"<code>{text(k)}</code>", *(text(show_option(values[k])) for _, values in known)]
        for k in keys
    ]
    heads = ["option", *(text(label) for label, _ in known)]
    return note + table("As each run was first started", heads, rows, "facts")
