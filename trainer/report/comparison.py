"""The page that compares several runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from common.page.parts import Block, Cell, Page, Section, Table, Text
from common.page.plots import COLOURS
from common.page.render import render_page
from common.prices import money
from trainer.report.curves import curves_section, plot_comparison
from trainer.report.page import count, duration, percent
from trainer.report.run_data import IDENTIFYING, Run, options, show_option
from trainer.task_descriptions import Metric


@dataclass(frozen=True)
class ResultColumn:
    """One column of the results."""

    title: str
    get: Callable[[Run], float | None]
    show: Callable[[float], str | None]
    better: Callable[[Sequence[float]], float] | None = None
    """Function that selects the best value; None if neither large nor small values are better."""
    held_out: bool = False
    """Whether values of different data sets cannot be compared."""


_COLUMNS = (
    ResultColumn(
        "held-out loss", lambda run: run.summary.loss, "{:.4f}".format, min, held_out=True
    ),
    ResultColumn("images/s", lambda run: run.summary.images_per_second, "{:,.1f}".format, max),
    ResultColumn("time", lambda run: run.summary.seconds, duration, min),
    ResultColumn("steps", lambda run: run.summary.step, count),
    ResultColumn("ranks", lambda run: run.attempts[-1].ranks if run.attempts else None, count),
    ResultColumn("attempts", lambda run: len(run.attempts), count),
)


def comparison_page(runs: Sequence[Run]) -> str:
    """Return an HTML page that compares several runs."""
    labels = distinct_labels(runs)
    known = {
        label: options(run.config) for run, label in zip(runs, labels, strict=True) if run.config
    }
    hint = (
        "Each run has one colour; curves with markers are of held-out images. Drag with a mouse to"
        " zoom, double-click to reset; click a name to hide its curves."
    )
    return render_page(
        Page(
            title=f"{', '.join(labels)} · comparison of runs",
            heading=f"{len(runs)} runs",
            lead=" · ".join(labels),
            notes=_data_sets(runs, labels),
            sections=[
                Section("results", "Results", [*_results(runs, labels), *_doubts(runs, labels)]),
                Section("options", "Options that differ", list(_options(labels, known))),
                curves_section(plot_comparison(runs, labels), hint),
            ],
            command="ml-trainer report RUN RUN...",
        )
    )


def distinct_labels(runs: Sequence[Run]) -> list[str]:
    """Return a label for each run: its name, or its folder if several runs have the same name."""
    names = [run.name for run in runs]
    return [run.name if names.count(run.name) == 1 else str(run.path.resolve()) for run in runs]


def _columns(runs: Sequence[Run]) -> Sequence[ResultColumn]:
    """Return the columns of the results; cost is one of them if it is known of a run."""
    metrics = dict.fromkeys(metric for run in runs for metric in run.task.evaluation)
    columns = (
        *(column for metric in metrics for column in _metric_columns(metric, runs)),
        *_COLUMNS,
    )
    currency = next((run.cost.currency for run in runs if run.cost), None)
    if currency is None:
        return columns

    def amount(run: Run) -> float | None:
        return run.cost.amount if run.cost and run.cost.currency == currency else None

    cost = ResultColumn("cost", amount, lambda value: money(value, currency), min)
    return (*columns, cost)


def _metric_columns(metric: Metric, runs: Sequence[Run]) -> Iterator[ResultColumn]:
    """Yield the column of a metric, unless no run has it, and that of its baseline."""
    key = metric.key
    if any(run.summary.metrics.get(key) is not None for run in runs):
        yield ResultColumn(
            f"held-out {metric.label}",
            lambda run: run.summary.metrics.get(key),
            percent,
            max,
            held_out=True,
        )
    baselines = sorted(
        {run.task.baseline_of(metric) for run in runs if key in run.summary.baseline}
    )
    if baselines:
        yield ResultColumn(
            f"{metric.label}, {' or '.join(baselines)}",
            lambda run: run.summary.baseline.get(key),
            percent,
        )


def _data_sets(runs: Sequence[Run], labels: Sequence[str]) -> list[str]:
    """Return a sentence if the runs have different data sets."""
    versions: dict[str, list[str]] = {}
    for run, label in zip(runs, labels, strict=True):
        if "data_version" in run.stored:
            versions.setdefault(str(run.stored["data_version"]), []).append(label)
    if len(versions) < 2:
        return []
    each = "; ".join(f"{', '.join(names)}: {version}" for version, names in versions.items())
    return [
        "The runs have different data sets, so their held-out images differ, and no held-out figure"
        f" is marked as the best ({each})."
    ]


def _doubts(runs: Sequence[Run], labels: Sequence[str]) -> list[Block]:
    return [
        Text(f"{label}: {' '.join(run.summary.warnings)}")
        for run, label in zip(runs, labels, strict=True)
        if run.summary.warnings
    ]


def _results(runs: Sequence[Run], labels: Sequence[str]) -> list[Block]:
    # An unfinished run has no final result and no total time to compare.
    finished = [run for run in runs if run.summary.final]
    columns, other_images = _columns(runs), bool(_data_sets(runs, labels))
    best: dict[str, float] = {}
    for column in columns:
        values = [value for run in finished if (value := column.get(run)) is not None]
        comparable = not (column.held_out and other_images)
        if column.better and len(values) > 1 and comparable:
            best[column.title] = column.better(values)

    def cell(run: Run, column: ResultColumn) -> str | Cell | None:
        value = column.get(run)
        shown = None if value is None else column.show(value)
        is_best = run.summary.final and value is not None and best.get(column.title) == value
        return Cell(shown, "best") if is_best else shown

    rows = []
    for number, (run, label) in enumerate(zip(runs, labels, strict=True)):
        state = "" if run.summary.final else f" ({run.state}: so far)"
        name = Cell(f"{label}{state}", "key", colour=number % COLOURS + 1)
        rows.append([name, *(cell(run, column) for column in columns)])
    reading = (
        "The best finished run is bold: the highest accuracy and images/s, the lowest loss and"
        " time. Held-out figures are those of the same weights. A single run per setting says"
        " little about small differences."
    )
    return [Table(reading, ["run", *(column.title for column in columns)], rows, "numbers")]


def _options(labels: Sequence[str], known: Mapping[str, Mapping[str, object]]) -> Iterator[Block]:
    """Yield the options that differ between configurations by label."""
    unreadable = [label for label in labels if label not in known]
    if unreadable:
        yield Text(f"The configuration of {', '.join(unreadable)} cannot be read.")
    if len(known) < 2:
        return
    first, *others = known.values()
    rows = [
        [key, *(show_option(values[key]) for values in known.values())]
        for key in first
        if key not in IDENTIFYING and any(values[key] != first[key] for values in others)
    ]
    if rows:
        yield Table("As each run was first started", ["option", *known], rows, "facts", code=True)
    else:
        yield Text("None: the runs were started with the same options.")
