"""The page of a rehearsal: one HTML file, generated from the record of a cycle."""

import os
import typing
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.files import write_atomically
from common.page.parts import Page, Share, Stat
from common.page.render import moment, render
from common.text import duration, plural
from rehearsal.errors import RehearsalError
from rehearsal.page import events
from rehearsal.page.record import Cycle, NodePool, from_json
from rehearsal.page.request_kinds import RequestKind, Service
from rehearsal.page.timeline import Axis, axis_of, levels, pools_with_nodes

_DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "rehearse-without-azure.md"


@dataclass(frozen=True, kw_only=True)
class CyclePage(Page):
    """The content of the page."""

    cycle: Cycle
    axis: Axis
    events: Sequence[tuple[int, events.Event]]
    """The events of the training, with their numbers."""
    pools: Sequence[tuple[int, NodePool]]
    """Clusters that had nodes, with their index in the record."""
    services: Sequence[Share]
    """Each service's share of the requests."""
    documentation: str
    """Path from the page to docs/rehearse-without-azure.md."""


def write_page(cycle: Cycle, path: Path) -> Path:
    """Write the page and return its path. The record's links are relative to the page's folder.

    Raises:
        OSError: the page cannot be written.
    """
    path = path.absolute()
    write_atomically(path, draw(cycle, os.path.relpath(_DOCUMENTATION, path.parent)))
    return path


def write_page_of(record: Path, path: Path | None = None) -> Path:
    """Write the page of a record's file, next to it if no path is given; return the page's path.

    Raises:
        RehearsalError: the record cannot be read, or the page cannot be written.
    """
    try:
        content = record.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RehearsalError(f"{record}: cannot read the record: {error}") from error
    try:
        return write_page(from_json(content), path or record.with_name("rehearsal.html"))
    except RehearsalError as error:
        raise RehearsalError(f"{record}: {error}") from error
    except OSError as error:
        raise RehearsalError(f"cannot write the page: {error}") from error


def draw(cycle: Cycle, documentation: str) -> str:
    """Return the page as HTML. Pure.

    Args:
        cycle: The record.
        documentation: Path from the page to docs/rehearse-without-azure.md.
    """
    headline = _headline(cycle)
    facts = [moment(cycle.began), cycle.machine, f"Pulumi {cycle.engine_version}"]
    page = CyclePage(
        title=f"{headline} · {cycle.title}",
        above=cycle.title,
        heading=headline,
        lead=" · ".join(filter(None, facts)),
        state="failed" if cycle.failed else "ok",
        tone="bad" if cycle.failed else "good",
        stats=_stats(cycle),
        cycle=cycle,
        axis=axis_of(cycle),
        events=list(enumerate(events.events(cycle), 1)),
        pools=pools_with_nodes(cycle.pools),
        services=_services(cycle.kinds),
        documentation=documentation,
    )
    words = {"address": address, "levels": levels, "training": events}
    return render("rehearsal.page", "rehearsal.html", page=page, **words)


def address(target: str) -> str | None:
    """Return the address of a file for a path relative to the page; None for other targets."""
    if target.startswith(("/", "#")) or "\\" in target or not target:
        return None
    # The colon is quoted too, so that no target has a scheme.
    path, mark, part = target.partition("#")
    return mark.join(urllib.parse.quote(each, safe="/", errors="replace") for each in (path, part))


def _headline(cycle: Cycle) -> str:
    if cycle.failed:
        return f"Failed at “{cycle.failed.title}” after {duration(cycle.seconds)}"
    done = sum(step.outcome == "ok" for step in cycle.steps)
    if not done:
        return "No step completed"
    every = "All " if 1 < done == len(cycle.steps) else ""
    return f"{every}{plural(done, 'step')} passed in {duration(cycle.seconds)}"


def _stats(cycle: Cycle) -> list[Stat]:
    done = sum(step.outcome == "ok" for step in cycle.steps)
    skipped = sum(step.outcome == "skipped" for step in cycle.steps)
    ended = [attempt for attempt in cycle.attempts if attempt.ended is not None]
    broken = sum(attempt.status not in events.GOOD for attempt in ended)
    reached = cycle.attempts[-1].last_step if cycle.attempts else None
    nodes = [count for pool in cycle.pools for _, count in pool.samples]
    requests = sum(kind.count for kind in cycle.kinds)
    return [
        Stat("steps passed", f"{done} of {len(cycle.steps)}", _some(skipped, "skipped")),
        Stat("attempts", f"{len(cycle.attempts)}", _some(broken, "not completed")),
        Stat("training steps", None if reached is None else f"{reached:,}"),
        Stat("peak nodes", f"{max(nodes, default=0)}"),
        Stat("requests", f"{requests:,}", _answers(cycle)),
    ]


def _answers(cycle: Cycle) -> str:
    absent = sum(kind.absent for kind in cycle.kinds)
    refused = sum(kind.errors for kind in cycle.kinds)
    others = ("other " if refused == 1 else "others ") if absent else ""
    said = _some(absent, "not found"), _some(refused, f"{others}failed (4xx, 5xx)")
    return ", ".join(filter(None, said))


def _some(number: int, words: str) -> str:
    return f"{number:,} {words}" if number else ""


def _services(kinds: Sequence[RequestKind]) -> list[Share]:
    total = max(sum(kind.count for kind in kinds), 1)
    counts = {
        service: sum(kind.count for kind in kinds if kind.service == service)
        for service in typing.get_args(Service)
    }
    return [
        Share(service, f"{count:,} ({count / total:.0%})", count / total, colour)
        for colour, (service, count) in enumerate(counts.items(), 1)
        if any(kind.service == service for kind in kinds)
    ]
