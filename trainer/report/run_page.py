"""The page of one run."""

import shlex
from collections.abc import Iterable

from common.page.markup import ABSENT, moment, text
from common.text import plural
from trainer.config import TrainConfig
from trainer.presets import PRESETS, to_args
from trainer.report.curves import plot_run
from trainer.report.page import duration, figures, layout, notes, page, percent, stats, table
from trainer.report.predictions import confusion, mistakes_grid, read_predictions
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

ATTEMPTS = 12
"""Largest number of attempts whose environments are shown."""

_PHASES = ("train", "compile", "evaluation", "checkpoint")
"""Phases in the order of the bar, which also determines their colours."""


def run_page(run: Run) -> str:
    """Return an HTML page about one run."""
    plots, predictions = plot_run(run), read_predictions(run)
    sections = {
        "curves": ("Curves", _hint(run) + figures(plots)),
        "confusion": ("Which classes are confused", confusion(predictions)),
        "mistakes": ("Mistakes", mistakes_grid(predictions)),
        "configuration": ("Configuration", _configuration(run)),
        "environment": ("Environment", _environment(run.attempts)),
    }
    source = (
        "Made from the files of the run by"
        f" <code>python -m trainer report {text(shlex.quote(str(run.path)))}</code>."
    )
    body = layout(_head(run), _overview(run), sections, source)
    return page(f"{run.name} · training report", body, plots)


def describe(config: TrainConfig | None) -> str:
    """Describe the trained model in a few words."""
    if config is None:
        return ""
    model = config.model
    return f"ResNet{model.depth} of width {model.width} at {model.image_size} px"


def _head(run: Run) -> str:
    words = {"finished": "finished", "stopped": "stopped", "unfinished": "not finished"}
    kind = "state" if run.state == "finished" else "state open"
    what = [describe(run.config), f"preset {run.config.preset}" if run.config else ""]
    if run.attempts:
        what.append(f"started {moment(run.attempts[0].time)}")
    return (
        f'<div class="title"><h1>{text(run.name)}</h1>'
        f'<span class="{kind}">{words[run.state]}</span></div>\n'
        f'<p class="lead">{text(" · ".join(filter(None, what)))}</p>\n'
    )


def _overview(run: Run) -> str:
    summary = run.summary
    ranks = run.attempts[-1].ranks if run.attempts else None
    so_far = "" if summary.final else " so far"
    of = f"of {summary.examples:,} images" if summary.examples else ""
    epochs = run.config.epochs if run.config else None
    reached = f"epoch {summary.epoch:.1f} of {epochs}" if summary.epoch and epochs else ""
    speed = summary.images_per_second
    entries = [
        (f"held-out top-1{so_far}", percent(summary.top1), of),
        (f"held-out top-5{so_far}", percent(summary.top5), ""),
        ("images/s", ABSENT if speed is None else f"{speed:,.1f}", ""),
        (f"time{so_far}", duration(summary.seconds), ""),
        ("steps", f"{summary.step:,}", reached),
        ("ranks", ABSENT if ranks is None else f"{ranks:,}", ""),
        ("attempts", f"{len(run.attempts):,}", ""),
    ]
    return notes(_notes(run)) + stats(entries) + _phases(summary)


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
    left_out = sum(run.curve("train", "images_left_out").values)
    if left_out:
        sentences.append(
            f"{left_out:,.0f} training images were left out because they cannot be decoded."
        )
    if summary.top1 is None:
        sentences.append("No evaluation: the run has no held-out images, or has not evaluated yet.")
    return sentences


def _phases(summary: Summary) -> str:
    seconds = {phase: summary.phases[phase] for phase in _PHASES if summary.phases.get(phase)}
    total = sum(seconds.values())
    if not total:
        return ""
    colours = {phase: f"--colour: var(--series-{n})" for n, phase in enumerate(_PHASES, 1)}
    bar = "".join(
        f'<span style="{colours[phase]}; flex: {taken / total:.4f} 1 0"></span>'
        for phase, taken in seconds.items()
    )
    legend = "".join(
        f'<li><span class="key" style="{colours[phase]}"></span>{phase} {duration(taken)}'
        f" ({taken / total:.0%})</li>"
        for phase, taken in seconds.items()
    )
    return (
        '<div class="shares"><h2>Where the time went</h2>'
        f'<div class="bar" aria-hidden="true">{bar}</div><ul>{legend}</ul></div>\n'
    )


def _hint(run: Run) -> str:
    marks = " ▲ marks a saved checkpoint." if run.checkpoints else ""
    restarts = " A dotted line marks the start of an attempt." if len(run.attempts) > 1 else ""
    long = len(run.of("train")) > POINTS
    means = " A point is the mean of several lines of metrics.jsonl." if long else ""
    zoom = "Drag with a mouse to zoom, double-click to reset."
    return f'<p class="hint">{zoom}{marks}{restarts}{means}</p>\n'


def _configuration(run: Run) -> str:
    config = run.config
    if config is None:
        return "<p>The configuration cannot be read.</p>\n"
    here, preset = options(config), options(PRESETS[config.preset])
    changed = [key for key in here if here[key] != preset[key] and key not in IDENTIFYING]
    rows = [
        [f"<code>{text(k)}</code>", text(show_option(here[k])), text(show_option(preset[k]))]
        for k in changed
    ]
    name = text(config.preset)
    differing = table(
        f"Options that differ from the preset {config.preset}",
        ["option", "this run", "preset"],
        rows,
        "facts",
    )
    command = shlex.join(["python", "-m", "trainer", "train", *to_args(config)])
    every = [[f"<code>{text(key)}</code>", text(show_option(value))] for key, value in here.items()]
    facts = {key: run.stored[key] for key in ("global_batch", "data_version") if key in run.stored}
    every += [[text(key.replace("_", " ")), text(value)] for key, value in facts.items()]
    return (
        (differing if changed else f"<p>All options are those of the preset {name}.</p>\n")
        + f"<details><summary>The command</summary>\n<pre><code>{text(command)}</code></pre>"
        "</details>\n<details><summary>All options</summary>\n"
        + table("As the run was first started", ["option", "value"], every, "facts")
        + "</details>\n"
    )


def _environment(attempts: Iterable[Attempt]) -> str:
    every = list(attempts)
    if not every:
        return "<p>No attempt is recorded.</p>\n"
    shown = every[-ATTEMPTS:]
    keys = dict.fromkeys(key for attempt in shown for key in mapping(attempt.environment))
    rows = [
        ["started", *(text(moment(attempt.time) or ABSENT) for attempt in shown)],
        ["from step", *(f"{attempt.step:,}" for attempt in shown)],
        ["ranks", *(ABSENT if a.ranks is None else f"{a.ranks:,}" for a in shown)],
    ]
    for key in keys:
        values = [_fact(attempt.environment.get(key)) for attempt in shown]
        rows.append([text(key.replace("_", " ")), *map(text, values)])
    left_out = f" (the last {ATTEMPTS} of {len(every):,})" if len(every) > ATTEMPTS else ""
    caption = (
        f"Environment of each attempt, as seen by rank 0{left_out}; {plural(len(every), 'attempt')}"
    )
    heads = ["", *(f"attempt {attempt.number}" for attempt in shown)]
    return table(caption, heads, rows, "facts")


def _fact(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list):
        return ", ".join(f"{v:.2f}" if isinstance(v, float) else str(v) for v in value)
    return str(value)
