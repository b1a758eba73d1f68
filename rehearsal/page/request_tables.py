"""The requests of a cycle by kind, as HTML tables. Pure."""

import typing
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from common.page.markup import ABSENT, text
from common.text import plural
from rehearsal.page.markup import table
from rehearsal.page.request_kinds import RequestKind, Service

_Column: TypeAlias = tuple[str, Callable[[RequestKind], str]]

SHOWN = 8
"""Kinds per service that are shown at once; the others are collapsed."""


def request_tables(kinds: Sequence[RequestKind]) -> str:
    """Return each service's share of the requests, and its requests by kind."""
    if not kinds:
        return "<p>No requests were recorded.</p>\n"
    services = [
        (number, service, [kind for kind in kinds if kind.service == service])
        for number, service in enumerate(typing.get_args(Service), 1)
    ]
    present = [(number, service, own) for number, service, own in services if own]
    columns = list(_columns(kinds))
    return _shares(present) + "".join(
        f'<div class="service card"><h3>{_key(number)}{text(service.capitalize())}</h3>\n'
        f"{_tables(service, own, columns)}</div>\n"
        for number, service, own in present
    )


def _shares(services: Sequence[tuple[int, str, Sequence[RequestKind]]]) -> str:
    counts = [(number, service, sum(k.count for k in own)) for number, service, own in services]
    total = max(sum(count for *_, count in counts), 1)
    bars = "".join(
        f'<span style="{_colour(number)}; flex: {count / total:.4f} 1 0"></span>'
        for number, _, count in counts
    )
    legend = "".join(
        f"<li>{_key(number)}{text(service)} {count:,} ({count / total:.0%})</li>"
        for number, service, count in counts
    )
    return (
        f'<div class="shares"><p class="hint">{plural(total, "request")} by service</p>'
        f'<div class="bar" aria-hidden="true">{bars}</div><ul>{legend}</ul>'
        f"{_about(sum(kind.absent for _, _, own in services for kind in own))}</div>\n"
    )


def _about(absent: int) -> str:
    if not absent:
        return ""
    return (
        f'<p class="hint">{absent:,} were answered 404 or 416: not found. Clients send such'
        " requests before they create a resource, while they wait for it, and until it is"
        " deleted.</p>"
    )


def _key(number: int) -> str:
    return f'<span class="key" style="{_colour(number)}" aria-hidden="true"></span>'


def _colour(number: int) -> str:
    return f"--colour: var(--series-{number})"


def _tables(service: str, kinds: Sequence[RequestKind], columns: Sequence[_Column]) -> str:
    ranked = sorted(kinds, key=lambda kind: -kind.count)
    shown, rest = ranked[:SHOWN], ranked[SHOWN:]
    tables = _table(f"{service.capitalize()}: the most frequent requests", shown, columns)
    if rest:
        count = sum(kind.count for kind in rest)
        tables += (
            f"<details><summary>{plural(len(rest), 'more kind')} of request,"
            f" {plural(count, 'request')}</summary>\n"
            f"{_table(f'{service.capitalize()}: the other requests', rest, columns)}</details>\n"
        )
    return tables


def _table(caption: str, kinds: Sequence[RequestKind], columns: Sequence[_Column]) -> str:
    rows = [[cell(kind) for _, cell in columns] for kind in kinds]
    return table(caption, [head for head, _ in columns], rows, "kinds")


def _columns(kinds: Sequence[RequestKind]) -> Iterator[_Column]:
    highest = max(*(kind.count for kind in kinds), 1)
    yield "resource", lambda kind: text(kind.resource)
    yield "method", lambda kind: f"<code>{text(kind.method)}</code>"
    yield "requests", lambda kind: _amount(kind.count, highest)
    if any(kind.absent for kind in kinds):
        yield "not found", lambda kind: f"{kind.absent:,}" if kind.absent else ABSENT
    if any(kind.errors for kind in kinds):
        yield (
            "4xx, 5xx",
            lambda kind: f'<span class="refused">{kind.errors:,}</span>' if kind.errors else ABSENT,
        )
    yield "median", lambda kind: ABSENT if kind.median_ms is None else _milliseconds(kind.median_ms)


def _amount(count: int, highest: int) -> str:
    return (
        f'<span class="amount"><span class="number">{count:,}</span>'
        '<span class="track" aria-hidden="true">'
        f'<span style="width: {100 * count / highest:.2f}%"></span></span></span>'
    )


def _milliseconds(value: float) -> str:
    return f"{value:,.{1 if value < 10 else 0}f} ms"
