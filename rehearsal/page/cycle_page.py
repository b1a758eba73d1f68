"""The page of a rehearsal: one HTML file, generated from the record of a cycle."""

import os
from pathlib import Path

from common.files import write_atomically
from common.page.markup import ABSENT, moment, section, text
from common.text import duration, plural
from rehearsal.errors import RehearsalError
from rehearsal.page.events import GOOD, end_of, events, steps
from rehearsal.page.markup import anchor, clock, page, table
from rehearsal.page.record import Attempt, Cycle, StepResult, from_json
from rehearsal.page.request_tables import request_tables
from rehearsal.page.timeline import pools_with_nodes, timeline

SHOWN_FINDINGS = 6
"""Findings of a step that are shown at once; the others are collapsed."""
_DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "stand-in.md"


def write_page(cycle: Cycle, path: Path) -> Path:
    """Write the page and return its path. The record's links are relative to the page's folder.

    Raises:
        OSError: the page cannot be written.
    """
    path = path.absolute()
    page = draw(cycle, os.path.relpath(_DOCUMENTATION, path.parent))
    write_atomically(path, page)
    return path


def write_page_of(record: Path, path: Path | None = None) -> Path:
    """Write the page of a record's file, beside it if no path is given; return the page's path.

    Raises:
        RehearsalError: the record cannot be read, or the page cannot be written.
    """
    try:
        text = record.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RehearsalError(f"{record}: cannot read the record: {error}") from error
    try:
        return write_page(from_json(text), path or record.with_name("rehearsal.html"))
    except RehearsalError as error:
        raise RehearsalError(f"{record}: {error}") from error
    except OSError as error:
        raise RehearsalError(f"cannot write the page: {error}") from error


def draw(cycle: Cycle, documentation: str) -> str:
    """Return the page as HTML. Pure.

    Args:
        cycle: The record.
        documentation: Path from the page to docs/stand-in.md.
    """
    sections = [
        ("time-line", "Timeline", _card(timeline(cycle) + _story(cycle))),
        ("steps", "Steps", _steps(cycle)),
        ("attempts", "Training attempts", _attempts(cycle)),
        ("requests", "Requests by kind", request_tables(cycle.kinds)),
        ("made", "Environment", _made(cycle, documentation)),
    ]
    if cycle.links:
        sections.insert(4, ("links", "Files", _links(cycle)))
    links = "".join(f'<li><a href="#{name}">{text(title)}</a></li>' for name, title, _ in sections)
    parts = "".join(section(*each) for each in sections)
    body = (
        f'<header>\n{_head(cycle)}<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
        f"</header>\n<main>\n{_failure(cycle)}{_stats(cycle)}{parts}</main>\n"
        "<footer>Generated from the record of the rehearsal by <code>python -m rehearsal page"
        "</code>. This page loads no other files.</footer>\n"
    )
    return page(f"{_headline(cycle)} · {cycle.title}", body)


def _headline(cycle: Cycle) -> str:
    if cycle.failed:
        return f"Failed at “{cycle.failed.title}” after {duration(cycle.seconds)}"
    done = sum(step.outcome == "ok" for step in cycle.steps)
    if not done:
        return "No step completed"
    every = "All " if 1 < done == len(cycle.steps) else ""
    return f"{every}{plural(done, 'step')} passed in {duration(cycle.seconds)}"


def _head(cycle: Cycle) -> str:
    ok = cycle.failed is None
    facts = [moment(cycle.began), cycle.machine, f"Pulumi {cycle.engine_version}"]
    return (
        f'<p class="over">{text(cycle.title)}</p>\n'
        f'<div class="title"><h1>{text(_headline(cycle))}</h1>'
        f'<span class="state {"good" if ok else "bad"}">{"ok" if ok else "failed"}</span></div>\n'
        f'<p class="lead">{text(" · ".join(filter(None, facts)))}</p>\n'
    )


def _failure(cycle: Cycle) -> str:
    step = cycle.failed
    if step is None:
        return ""
    command = f"<pre><code>{text(step.command)}</code></pre>\n" if step.command else ""
    said = text("\n".join(step.lines)) or "No output."
    look = f'<p class="look">See <code>{text(step.place)}</code></p>\n' if step.place else ""
    when = clock(step.began - cycle.began)
    return (
        '<section class="failure card" aria-labelledby="failure">\n'
        f'<h2 id="failure">{text(step.title)} failed</h2>\n'
        f"<p>The step <code>{text(step.name)}</code> started at {when} and failed after"
        f" {duration(step.seconds)}.</p>\n"
        f"{command}<pre>{said}</pre>\n{look}</section>\n"
    )


def _stats(cycle: Cycle) -> str:
    done = sum(step.outcome == "ok" for step in cycle.steps)
    skipped = sum(step.outcome == "skipped" for step in cycle.steps)
    reached = cycle.attempts[-1].last_step if cycle.attempts else None
    nodes = [count for pool in cycle.pools for _, count in pool.samples]
    entries = [
        ("steps passed", f"{done} of {len(cycle.steps)}", f"{skipped} skipped" if skipped else ""),
        ("attempts", f"{len(cycle.attempts)}", _endings(cycle)),
        ("training steps", ABSENT if reached is None else f"{reached:,}", ""),
        ("peak nodes", f"{max(nodes, default=0)}", ""),
        (
            "requests",
            f"{sum(kind.count for kind in cycle.kinds):,}",
            _answers(cycle),
        ),
    ]
    figures = "".join(
        f'<div class="stat"><dt>{label}</dt><dd class="value">{value}</dd>'
        + (f"<dd>{text(extra)}</dd>" if extra else "")
        + "</div>\n"
        for label, value, extra in entries
    )
    return f'<dl class="stats">\n{figures}</dl>\n'


def _endings(cycle: Cycle) -> str:
    ended = [attempt for attempt in cycle.attempts if attempt.ended is not None]
    broken = sum(attempt.status not in GOOD for attempt in ended)
    return f"{broken} not completed" if broken else ""


def _answers(cycle: Cycle) -> str:
    absent = sum(kind.absent for kind in cycle.kinds)
    refused = sum(kind.errors for kind in cycle.kinds)
    others = "others " if absent else ""
    said = [f"{absent:,} not found"] if absent else []
    said += [f"{refused:,} {others}failed (4xx, 5xx)"] if refused else []
    return ", ".join(said)


def _story(cycle: Cycle) -> str:
    told = "".join(
        f'<li><span class="number {event.tone}">{number}</span>'
        f"<time>{clock(event.at - cycle.began)}</time><span>{text(event.words)}</span></li>\n"
        for number, event in enumerate(events(cycle), 1)
    )
    story = f'<ol class="story">\n{told}</ol>\n' if told else ""
    seen = {index for index, _ in pools_with_nodes(cycle.pools)}
    idle = [pool.cluster for index, pool in enumerate(cycle.pools) if index not in seen]
    never = f'<p class="hint">Never had nodes: {text(", ".join(idle))}.</p>\n' if idle else ""
    return story + never


def _steps(cycle: Cycle) -> str:
    if not cycle.steps:
        return "<p>No steps were recorded.</p>\n"
    rows = [
        [
            f'{text(step.title)}<span class="short">{text(step.name)}</span>',
            f'<span class="outcome {step.outcome}">{step.outcome}</span>',
            ABSENT if step.outcome == "skipped" else clock(step.began - cycle.began),
            ABSENT if step.outcome == "skipped" else duration(step.seconds),
            _findings(step),
        ]
        for step in cycle.steps
    ]
    head = ["step", "outcome", "started", "duration", "command and findings"]
    return _card(table("Steps in the order of the cycle", head, rows, "steps"))


def _findings(step: StepResult) -> str:
    command = f'<code class="command">{text(step.command)}</code>' if step.command else ""
    lines = [f"<li>{text(line)}</li>" for line in step.lines]
    findings = f"<ul>{''.join(lines[:SHOWN_FINDINGS])}</ul>" if lines else ""
    if lines[SHOWN_FINDINGS:]:
        more = plural(len(lines) - SHOWN_FINDINGS, "more line")
        rest = "".join(lines[SHOWN_FINDINGS:])
        findings += f"<details><summary>{more}</summary><ul>{rest}</ul></details>"
    if step.outcome == "failed" and step.place:
        findings += f'<p class="look">See <code>{text(step.place)}</code></p>'
    return command + findings or ABSENT


def _attempts(cycle: Cycle) -> str:
    if not cycle.attempts:
        return "<p>No training was submitted.</p>\n"
    rows = [
        _attempt(number, attempt, cycle.began) for number, attempt in enumerate(cycle.attempts, 1)
    ]
    head = ["attempt", "cluster", "started", "duration", "steps", "status"]
    return _card(table("Jobs that were submitted for the training", head, rows, "attempts"))


def _attempt(number: int, attempt: Attempt, began: float) -> list[str]:
    done = steps(attempt).removeprefix("steps ")
    state = "ok" if attempt.status in GOOD else "running" if attempt.ended is None else "broken"
    reason = f'<span class="short">{text(attempt.reason)}</span>' if attempt.reason else ""
    size = f"{plural(attempt.ranks, 'rank')} on {plural(attempt.nodes, 'node')}"
    return [
        f'{number}<span class="short">{text(attempt.job)}</span>',
        f'{text(attempt.cluster)}<span class="short">{size}</span>',
        clock(attempt.began - began),
        ABSENT if attempt.ended is None else duration(attempt.ended - attempt.began),
        text(done) or ABSENT,
        f'<span class="outcome {state}">{text(attempt.status)}</span>{reason}'
        + (f'<span class="short">{end_of(attempt)}</span>' if state == "running" else ""),
    ]


def _card(content: str) -> str:
    return f'<div class="card">{content}</div>\n'


def _links(cycle: Cycle) -> str:
    items = "".join(f"<li>{anchor(link.title, link.target)}</li>\n" for link in cycle.links)
    return f'<ul class="links card">\n{items}</ul>\n'


def _made(cycle: Cycle, documentation: str) -> str:
    facts = [
        ("machine", cycle.machine),
        ("Pulumi's engine", cycle.engine_version),
        *cycle.versions,
    ]
    rows = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in facts
    )
    differs = anchor("What differs from Azure", f"{documentation}#what-differs-from-azure")
    return (
        f'<div class="card"><dl class="facts">{rows}</dl>\n'
        "<p>The rehearsal ran against a stand-in for Azure on this machine's loopback. Nothing was"
        f" compared with a real subscription; see {differs}.</p></div>\n"
    )
