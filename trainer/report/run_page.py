"""The page of one run."""

import shlex
from collections.abc import Sequence
from itertools import chain, repeat

from common.page.parts import (
    Block,
    Code,
    Details,
    Page,
    Plots,
    Section,
    Share,
    Shares,
    Stat,
    Table,
    Text,
)
from common.page.render import moment, render_page
from common.prices import money
from common.program import load
from common.text import duration as in_words
from common.text import plural
from trainer.config import TrainConfig
from trainer.leaves import LEAVES
from trainer.model.description import describe as describe_network
from trainer.presets import PRESETS, to_args
from trainer.report.curves import SPEED, curves_section, plot_run
from trainer.report.page import count, duration, holds_images, percent
from trainer.report.run_data import (
    IDENTIFYING,
    POINTS,
    Attempt,
    Run,
    Summary,
    mapping,
    options,
    show_option,
)
from trainer.task_descriptions import Metric

ATTEMPTS = 12
"""Largest number of attempts whose environments are shown."""

_PHASES = ("train", "compile", "evaluation", "checkpoint")
"""Phases in the order of the bar, which also determines their colours."""


def run_page(run: Run) -> str:
    """Return an HTML page about one run."""
    what = [describe(run.config), f"preset {run.config.preset}" if run.config else ""]
    if run.attempts:
        what.append(f"started {moment(run.attempts[0].time)}")
    sections = [
        *load(run.task.report)(run),
        *(section for leaf in LEAVES if leaf.sections for section in load(leaf.sections)(run)),
        *([] if run.evaluated else [curves_section(plot_run(run), _hint(run))]),
        Section("configuration", "Configuration", _configuration(run)),
    ]
    if not run.evaluated:
        sections += [
            Section("environment", "Environment", [_environment(run.attempts)]),
            Section("speed", "Speed", _speed(run)),
        ]
    return render_page(
        Page(
            title=f"{run.name} · {'evaluation' if run.evaluated else 'training'} report",
            heading=run.name,
            lead=" · ".join(filter(None, what)),
            state="not finished" if run.state == "unfinished" else run.state,
            tone="" if run.state == "finished" else "warning",
            warnings=run.summary.warnings,
            notes=[*holds_images(sections), *_notes(run)],
            stats=_stats(run),
            sections=sections,
            command=f"ml-trainer report {shlex.quote(str(run.path))}",
        )
    )


def describe(config: TrainConfig | None) -> str:
    """Describe the trained model in a few words."""
    if config is None:
        return ""
    return f"{describe_network(config.model)} at {config.model.image_size} px"


def _stats(run: Run) -> list[Stat]:
    summary, known = run.summary, run.summary.metrics
    so_far = "" if summary.final else " so far"
    of = f"of {plural(summary.examples, 'image')}" if summary.examples else ""
    metrics = [metric for metric in run.task.evaluation if known[metric.key] is not None]
    epochs = run.config.epochs if run.config else None
    reached = f"epoch {summary.epoch:.1f} of {epochs}" if summary.epoch and epochs else ""
    speed = summary.images_per_second
    world = run.attempts[-1].ranks if run.attempts else None
    ranks = f"on {plural(world, 'rank')}" if world else ""
    attempts = plural(len(run.attempts), "attempt") if len(run.attempts) > 1 else ""
    return [
        *(
            Stat(
                f"{run.images} {metric.label}{so_far}",
                percent(known[metric.key]),
                "; ".join(filter(None, (note, _baseline(run, metric)))),
            )
            for metric, note in zip(
                metrics or run.task.evaluation[:1], chain([of], repeat("")), strict=False
            )
        ),
        *(
            []
            if run.evaluated
            else [
                Stat("images/s", None if speed is None else f"{speed:,.1f}", ranks),
                Stat(f"time{so_far}", duration(summary.seconds), attempts),
            ]
        ),
        Stat("steps", count(summary.step), reached),
        *([Stat("estimated cost", money(run.cost.amount, run.cost.currency))] if run.cost else []),
    ]


def _baseline(run: Run, metric: Metric) -> str:
    value = run.summary.baseline.get(metric.key)
    return "" if value is None else f"{run.task.baseline_of(metric)} {value:.2%}"


def _notes(run: Run) -> list[str]:
    """Return sentences that a reader must know before the figures."""
    summary, sentences = run.summary, list(run.problems)
    if run.state == "stopped":
        sentences.append(f"Stopped after step {summary.step:,}; it can be continued.")
    elif run.state == "unfinished":
        last = moment(run.lines[-1].get("time")) if run.lines else ""
        sentences.append(
            "Not finished: it is in progress, or it ended without recording why"
            + (f"; its last record is of {last}." if last else ".")
        )
    left_out = int(sum(run.curve("train", "images_left_out").values))
    if left_out:
        were = "was left out because it" if left_out == 1 else "were left out because they"
        sentences.append(f"{plural(left_out, 'training image')} {were} cannot be decoded.")
    if not any(value is not None for value in summary.metrics.values()):
        sentences.append("No evaluation: the run has no held-out images, or has not evaluated yet.")
    return sentences


def _speed(run: Run) -> list[Block]:
    phases, plots = _phases(run.summary), plot_run(run, SPEED)
    blocks: list[Block] = [Shares("Where the time went", phases)] if phases else []
    return [*blocks, Plots(plots)] if plots else blocks or [Text("Nothing was timed yet.")]


def _phases(summary: Summary) -> list[Share]:
    total = sum(summary.phases.get(phase, 0) for phase in _PHASES)
    return [
        Share(phase, f"{in_words(taken)} ({taken / total:.0%})", taken / total, colour)
        for colour, phase in enumerate(_PHASES, 1)
        if (taken := summary.phases.get(phase))
    ]


def _hint(run: Run) -> str:
    marks = " A tick on the axis marks a saved checkpoint." if run.checkpoints else ""
    restarts = " A dotted line marks the start of an attempt." if len(run.attempts) > 1 else ""
    long = len(run.of("train")) > POINTS
    means = " A point is the mean of several lines of metrics.jsonl." if long else ""
    return f"Drag with a mouse to zoom, double-click to reset.{marks}{restarts}{means}"


def _configuration(run: Run) -> list[Block]:
    config = run.config
    if config is None:
        return [Text("The configuration cannot be read.")]
    here, preset = options(config), options(PRESETS[config.preset])
    changed = [
        (key, show_option(value), show_option(preset[key]))
        for key, value in here.items()
        if value != preset[key] and key not in IDENTIFYING
    ]
    every = [(key, show_option(value)) for key, value in here.items()]
    every += [(k, str(run.stored[k])) for k in ("global_batch", "data_version") if k in run.stored]
    name = config.preset
    heads = ("option", "this run", "preset")
    command = shlex.join(["ml-trainer", "train", *to_args(config)])
    first = "As the run was first started"
    return [
        Table(f"Options that differ from the preset {name}", heads, changed, "facts", code=True)
        if changed
        else Text(f"All options are those of the preset {name}."),
        *([] if run.evaluated else [Details("The command", [Code(command)])]),
        Details("All options", [Table(first, ("option", "value"), every, "facts", code=True)]),
    ]


def _environment(attempts: Sequence[Attempt]) -> Block:
    if not attempts:
        return Text("No attempt is recorded.")
    shown = attempts[-ATTEMPTS:]
    keys = dict.fromkeys(key for attempt in shown for key in mapping(attempt.environment))
    rows = [
        ["started", *(moment(attempt.time) or None for attempt in shown)],
        ["from step", *(count(attempt.step) for attempt in shown)],
        ["ranks", *(count(attempt.ranks) for attempt in shown)],
        *(
            [key.replace("_", " "), *(_fact(attempt.environment.get(key)) for attempt in shown)]
            for key in keys
        ),
    ]
    left_out = f" (the last {ATTEMPTS} of {len(attempts):,})" if len(attempts) > ATTEMPTS else ""
    caption = f"Environment of each attempt, as seen by rank 0{left_out}"
    heads = ["", *(f"attempt {attempt.number}" for attempt in shown)]
    return Table(f"{caption}; {plural(len(attempts), 'attempt')}", heads, rows, "facts")


def _fact(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in value)
    return None if value is None else str(value)
