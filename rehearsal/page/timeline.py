"""The timeline of the cycle: steps, training attempts and nodes on one time axis. Pure.

It is as wide as its page: horizontal positions are in percent and vertical ones in pixels, so that
texts keep their size on every screen. Colours come from the page's style sheet, by class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from common.page.markup import text
from common.text import duration, plural
from rehearsal.page.events import GOOD, Event, end_of, events, state_of, steps, was_preempted
from rehearsal.page.markup import clock
from rehearsal.page.record import Attempt, Cycle, NodePool, StepResult

_DISTANCES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400)
"""Possible distances of two marks, in seconds; all are easy to count in."""
_TOP = 30
"""Height of the axis labels, which are also at the bottom, in pixels."""
_NODES = 44
"""Height of a node curve, in pixels."""
_BETWEEN = 26
"""Space between two parts, in pixels."""
_LONGEST = 34
"""Most characters of a name beside its bar."""


@dataclass(frozen=True)
class Axis:
    """Maps times to positions, in percent of the picture's width, so that it fits every screen."""

    began: float
    ended: float
    left: float
    """Position of the beginning, in percent."""
    right: float
    """Position of the end, in percent."""

    def at(self, time: float) -> float:
        """Return the position of a time; a time outside the axis is put at its nearer end."""
        share = (time - self.began) / (self.ended - self.began)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def marks(self, limit: int) -> tuple[tuple[float, str], ...]:
        """Return positions and labels of at most `limit` marks, the first at the beginning."""
        length = self.ended - self.began
        days = (86_400 * 2**power for power in range(1, 60))
        distance = next(d for d in (*_DISTANCES, *days) if length / d < limit)
        count = int(length // distance) + 1
        return tuple(
            (self.at(self.began + distance * index), clock(distance * index))
            for index in range(count)
        )


def axis_of(cycle: Cycle, left: float, right: float) -> Axis:
    """Return an axis that covers everything that a cycle recorded.

    Args:
        cycle: The record.
        left: Position of the beginning, in percent.
        right: Position of the end, in percent.
    """
    ends = [cycle.began + cycle.seconds]
    ends += [step.began + step.seconds for step in cycle.steps if step.outcome != "skipped"]
    ends += [attempt.ended for attempt in cycle.attempts if attempt.ended is not None]
    # At least one second, because positions are divided by the length.
    return Axis(cycle.began, max(*ends, cycle.began + 1), left, right)


@dataclass(frozen=True)
class Layout:
    """Layout of a picture."""

    name: str
    left: float
    """Position of the axis' beginning, in percent; names are left of it if `beside`."""
    right: float
    row: int
    """Height of a step or an attempt, in pixels."""
    thick: int
    """Height of a bar, in pixels."""
    beside: bool
    """Whether names are beside their bars; otherwise above them."""
    marks: int
    """Most marks of the axis."""


WIDE = Layout("wide", 29, 90, 24, 14, beside=True, marks=9)
NARROW = Layout("narrow", 6, 94, 38, 10, beside=False, marks=5)


def timeline(cycle: Cycle) -> str:
    """Return the picture as HTML, in a wide and in a narrow version."""
    return "".join(_drawn(cycle, layout) for layout in (WIDE, NARROW))


def pools_with_nodes(pools: Sequence[NodePool]) -> list[tuple[int, NodePool]]:
    """Return the pools that ever had a node, with their index in the record."""
    return [
        (index, pool) for index, pool in enumerate(pools) if any(count for _, count in pool.samples)
    ]


def levels(pool: NodePool, end: float) -> Iterator[tuple[float, float, int]]:
    """Yield the begin, end and node count of each interval with a constant count."""
    changes = [
        (at, count)
        for index, (at, count) in enumerate(pool.samples)
        if not index or count != pool.samples[index - 1][1]
    ]
    for (at, count), (until, _) in pairwise([*changes, (end, 0)]):
        yield at, max(until, at), count


def _drawn(cycle: Cycle, layout: Layout) -> str:
    axis = axis_of(cycle, layout.left, layout.right)
    numbered = list(enumerate(events(cycle), 1))
    y = float(_TOP)
    parts: list[str] = []
    for step in cycle.steps:
        parts += _step(step, y, layout, axis)
        y += layout.row
    began = y + _BETWEEN / 2
    if cycle.attempts:
        y += _BETWEEN
        for index, attempt in enumerate(cycle.attempts):
            own = [(n, e) for n, e in numbered if e.where != "nodes" and e.index == index]
            parts += _attempt(index, attempt, own, y, layout, axis)
            y += layout.row
    for index, pool in pools_with_nodes(cycle.pools):
        own = [(n, e) for n, e in numbered if e.where == "nodes" and e.index == index]
        y += _BETWEEN if layout.beside else _BETWEEN + 14
        parts += _pool(pool, own, y, layout, axis)
        y += _NODES
    y += 8
    cuts = [
        attempt.ended
        for attempt in cycle.attempts
        if attempt.ended is not None and was_preempted(attempt)
    ]
    under = [*_grid(axis, layout, y)]
    under += [_line(axis.at(at), axis.at(at), began, y, "cut-line") for at in cuts]
    return _picture(f"timeline {layout.name}", y + 22, _label(cycle), under + parts)


def _grid(axis: Axis, layout: Layout, bottom: float) -> Iterator[str]:
    for x, label in axis.marks(layout.marks):
        yield _line(x, x, _TOP - 8, bottom, "grid")
        for y in (_TOP - 14, bottom + 16):
            yield _text(x, y, label, "mark", anchor="middle")


def _step(step: StepResult, y: float, layout: Layout, axis: Axis) -> list[str]:
    left, right = axis.at(step.began), axis.at(step.began + step.seconds)
    took = duration(step.seconds)
    outcome = {"ok": took, "failed": f"failed, {took}", "skipped": "skipped"}[step.outcome]
    hint = f"{step.title}: {outcome}, from {clock(step.began - axis.began)}"
    shapes = [_name(step.title, y, layout, "name" if step.outcome == "ok" else step.outcome)]
    bar_y = _bar_y(y, layout)
    if step.outcome != "skipped":
        shapes.append(_bar(left, right, bar_y, layout.thick, f"step {step.outcome}", hint))
    kind = "took" if step.outcome == "ok" else f"took {step.outcome}"
    if not layout.beside:
        shapes.append(_text(100, y + 14, outcome, kind, anchor="end"))
    elif step.outcome == "skipped":
        shapes.append(_text(layout.left, bar_y + 11, outcome, kind, shift=7))
    else:
        shapes.append(_text(right, bar_y + 11, outcome, kind, shift=7))
    return shapes


def _attempt(
    index: int,
    attempt: Attempt,
    numbered: Sequence[tuple[int, Event]],
    y: float,
    layout: Layout,
    axis: Axis,
) -> list[str]:
    end = axis.ended if attempt.ended is None else attempt.ended
    left, right = axis.at(attempt.began), axis.at(end)
    ok = attempt.status in GOOD or attempt.ended is None
    kind = "attempt" if ok else "attempt broken"
    did = steps(attempt)
    name = f"Attempt {index + 1}" + (f", {did}" if did else "")
    bar_y = _bar_y(y, layout)
    middle = bar_y + layout.thick / 2
    hint = f"{name}: {end_of(attempt)}, {duration(end - attempt.began)}"
    shapes = [
        _text(0, y + (16 if layout.beside else 14), name, "name"),
        _bar(left, right, bar_y, layout.thick, kind, hint),
    ]
    if not ok:
        shapes.append(_line(right, right, bar_y - 4, bar_y + layout.thick + 4, "cut"))
    for number, event in numbered:
        first = event.where == "began"
        x, shift = (left, -12) if first else (right, 12)
        shapes.append(_badge(x, middle, number, event.tone, shift=shift))
    outside = "took" if ok else "took broken"
    inside = "inside" if ok else "inside broken"
    if not layout.beside:
        shapes.append(_text(100, y + 14, state_of(attempt), outside, anchor="end"))
    elif right < 70:
        shapes.append(_text(right, middle + 4, end_of(attempt), outside, shift=27))
    elif right - left > 30:
        shapes.append(_text(right, middle + 4, end_of(attempt), inside, shift=-8, anchor="end"))
    else:
        shapes.append(_text(left, middle + 4, end_of(attempt), outside, shift=-27, anchor="end"))
    return shapes


def _pool(
    pool: NodePool, numbered: Sequence[tuple[int, Event]], y: float, layout: Layout, axis: Axis
) -> list[str]:
    highest = max(count for _, count in pool.samples)
    bottom = y + _NODES
    if layout.beside:
        shapes = [
            _text(0, y + 14, _fitted(f"Nodes of {pool.cluster}"), "name"),
            _text(0, y + 31, _fitted(f"{pool.size}, {pool.priority}"), "about"),
        ]
    else:
        shapes = [
            _text(0, y - 8, _fitted(f"Nodes of {pool.cluster}"), "name"),
            _text(100, y - 8, _fitted(pool.priority, 16), "about", anchor="end"),
        ]
    shapes.append(_line(axis.left, axis.right, bottom, bottom, "base"))
    before = 0
    for since, until, count in levels(pool, axis.ended):
        left, right = axis.at(since), axis.at(until)
        top, last = bottom - _NODES * count / highest, bottom - _NODES * before / highest
        if count != before:
            shapes.append(_line(left, left, min(top, last), max(top, last), "edge"))
        before = count
        if not count:
            continue
        shapes.append(_area(left, right, top, bottom - top, "nodes"))
        shapes.append(_line(left, right, top, top, "edge"))
        if right - left > 3:
            # Inside the area if it is high enough, otherwise above it.
            inside = bottom - top > 18
            shapes.append(
                _text(left, top + 14 if inside else top - 4, f"{count}", "count", shift=6)
            )
    for number, event in numbered:
        shapes.append(_badge(axis.at(event.at), bottom - 13, number, event.tone, shift=12))
    return shapes


def _name(content: str, y: float, layout: Layout, kind: str) -> str:
    return _text(0, y + (16 if layout.beside else 14), _fitted(content), kind)


def _bar_y(y: float, layout: Layout) -> float:
    return y + 5 if layout.beside else y + 21


def _fitted(content: str, longest: int = _LONGEST) -> str:
    return content if len(content) <= longest else f"{content[: longest - 1].rstrip()}…"


def _label(cycle: Cycle) -> str:
    return (
        f"Timeline of {plural(len(cycle.steps), 'step')} in {duration(cycle.seconds)}, with"
        f" {plural(len(cycle.attempts), 'training attempt')} and the nodes of"
        f" {plural(len(pools_with_nodes(cycle.pools)), 'cluster')}; the text below says the same."
    )


def _bar(left: float, right: float, y: float, height: float, kind: str, hint: str = "") -> str:
    """Return a bar, at least two pixels wide; the hint appears on hover."""
    title = f"<title>{text(hint)}</title>" if hint else ""
    # The stroke keeps a bar of zero width visible.
    return (
        f'<rect class="{kind}" x="{left:.3f}%" width="{max(right - left, 0):.3f}%" y="{y:g}"'
        f' height="{height:g}" rx="2">{title}</rect>'
    )


def _area(left: float, right: float, y: float, height: float, kind: str) -> str:
    """Return a rectangle with sharp corners."""
    return (
        f'<rect class="{kind}" x="{left:.3f}%" width="{max(right - left, 0):.3f}%" y="{y:g}"'
        f' height="{height:g}"/>'
    )


def _line(left: float, right: float, top: float, bottom: float, kind: str) -> str:
    """Return a straight line."""
    return f'<line class="{kind}" x1="{left:.3f}%" x2="{right:.3f}%" y1="{top:g}" y2="{bottom:g}"/>'


def _text(
    x: float, y: float, content: str, kind: str, *, shift: float = 0, anchor: str = "start"
) -> str:
    """Return a text whose baseline is at y.

    Args:
        x: Horizontal position, in percent.
        y: Position of the baseline, in pixels.
        content: Text, as plain text.
        kind: Class.
        shift: Pixels to move it to the right.
        anchor: Part of the text that is at x: start, middle or end.
    """
    return (
        f'<text class="{kind}" x="{x:.3f}%" dx="{shift:g}" y="{y:g}" text-anchor="{anchor}">'
        f"{text(content)}</text>"
    )


def _badge(x: float, y: float, number: int, kind: str, *, shift: float = 0) -> str:
    """Return a number in a circle, which refers to the list below the picture."""
    return (
        f'<g class="badge {kind}"><circle cx="{x:.3f}%" cy="{y:g}" r="8.5"'
        f' transform="translate({shift:g} 0)"/><text x="{x:.3f}%" dx="{shift:g}" y="{y + 4:g}"'
        f' text-anchor="middle">{number}</text></g>'
    )


def _picture(identity: str, height: float, label: str, shapes: list[str]) -> str:
    """Return the picture; screen readers read its label, and the page has the content as text."""
    return (
        f'<svg class="{identity}" role="img" aria-label="{text(label)}" width="100%"'
        f' height="{height:g}" xmlns="http://www.w3.org/2000/svg">\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )
