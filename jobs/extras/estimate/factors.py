"""How an estimate follows from rows, and how far off held-out rows of each class were. Pure.

An estimate is images/s of a GPU in the rows whose nodes are nearest, times the GPUs, times the
usual ratio of the class: whether the user measured the rows, and on which nodes. Each row is
estimated as if it were not known: from the rows of other publishers or, for a measurement of the
user, from rows of the same system with fewer GPUs. The measurements in these cases give a class its
usual ratio and its factor.

`python -m jobs.extras.estimate.factors` writes the table of its README.md.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, log2
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Final

from jobs.extras.estimate.rows import Row, shipped

DOCUMENT: Final = Path(__file__).with_name("README.md")
TABLE: Final = re.compile(r"<!-- factors -->\n.*?<!-- end -->", re.DOTALL)
SHARE: Final = 0.95
"""Share of the held-out rows of each publisher that lie within the factor of a class."""
_FEW: Final = 3
"""Publishers below which types of GPUs are left out instead."""
_WAYS: Final = ("the same nodes", "another number of GPUs", "fewer nodes, InfiniBand")
_TCP: Final = "two nodes and more, TCP"
CLASSES: Final = (
    *(("published", way) for way in _WAYS),
    *(("measured", way) for way in (*_WAYS, _TCP)),
)
"""Basis of an estimate, and the nodes that its rows were measured on."""

Class = tuple[str, str]


@dataclass(frozen=True)
class Linear:
    """Images/s of the nearest rows, in proportion to GPUs."""

    images_per_s: float
    of_class: Class
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Case:
    """A row that was estimated as if it were not known."""

    of_class: Class
    row: Row
    ratio: float
    """Measured images/s in those that are in proportion to GPUs."""


@dataclass(frozen=True)
class Factor:
    """How far off the held-out rows of a class were."""

    usual: float
    """Median of measured images/s in those that are in proportion to GPUs."""
    off: float
    """Factor of the usual, both ways, within which 19 of 20 held-out rows of each publisher lie."""
    rows: int
    publishers: int

    def holds(self, ratio: float) -> bool:
        return 1 / self.off <= ratio / self.usual <= self.off


def nearest(rows: Iterable[Row], wanted: Row) -> Linear | None:
    """Return images/s by the rows whose nodes are nearest; None if no row fits.

    Rows of the same nodes come first, then those with as many GPUs in a node, then those with the
    nearest number of GPUs. A single GPU of the user says nothing of several nodes, as its estimates
    of held-out rows were too far off. Networks without RDMA differ so much that only measurements
    of the user on two nodes and more count.
    """
    several, tcp = wanted.nodes > 1, wanted.network == "TCP"
    fitting = [
        row
        for row in rows
        if row.fits(wanted)
        and not (several and row.mine and row.gpus_per_node != wanted.gpus_per_node)
        and not (tcp and not (row.mine and row.network))
    ]
    if not fitting:
        return None

    def distance(row: Row) -> tuple[bool, bool, float, int]:
        apart = abs(log2(row.gpus / wanted.gpus))
        return row.shape != wanted.shape, row.gpus_per_node != wanted.gpus_per_node, apart, row.gpus

    best = min(map(distance, fitting))
    used = tuple(row for row in fitting if distance(row) == best)
    way = _WAYS[0] if not best[0] else _TCP if tcp else _WAYS[1 + several]
    of_class = "measured" if used[0].mine else "published", way
    return Linear(median(row.of_one_gpu for row in used) * wanted.gpus, of_class, used)


def held_out(rows: Sequence[Row]) -> Iterator[Case]:
    """Estimate each row as if it were not known."""
    kinds: dict[tuple[str, ...], list[Row]] = {}
    systems: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        kinds.setdefault(row.kind, []).append(row)
        system = row.series, row.kind, row.precision, row.framework, row.gpu, row.batch_per_gpu
        systems.setdefault((*system, row.note), []).append(row)
    for row in rows:
        if row.network != "TCP":
            others = [other for other in kinds[row.kind] if other.publisher != row.publisher]
            linear = nearest(others, row)
            if linear is not None:
                yield Case(linear.of_class, row, row.images_per_s / linear.images_per_s)
    for own in systems.values():
        for row in own:
            yield from _in_a_system(own, row)


def _in_a_system(system: Sequence[Row], row: Row) -> Iterator[Case]:
    """Estimate a row as one who has measured the least of its system that a class needs."""
    own = {(member.shape, member.data): member.of_one_gpu for member in system}
    gpus, nodes = row.shape
    known = (
        own.get((row.shape, "synthetic")) if row.data == "real" else None,
        own.get(((1, 1), row.data)) if nodes == 1 < gpus else None,
        own.get(((gpus, 1), row.data)) if row.network == "InfiniBand" else None,
        own.get(((gpus, 2), row.data)) if row.network == "TCP" and nodes > 2 else None,
    )
    for way, of_one_gpu in zip((*_WAYS, _TCP), known, strict=True):
        if of_one_gpu is not None:
            yield Case(("measured", way), row, row.of_one_gpu / of_one_gpu)


def factor(cases: Sequence[Case]) -> Factor:
    """Return the factor of the cases of one class."""
    usual = median(case.ratio for case in cases)
    publishers: dict[str, list[float]] = {}
    for case in cases:
        off = max(case.ratio / usual, usual / case.ratio)
        publishers.setdefault(case.row.publisher, []).append(off)
    # Rows of a publisher deviate together, and some publishers have many.
    widest = max(sorted(own)[ceil(SHARE * len(own)) - 1] for own in publishers.values())
    return Factor(usual, widest, len(cases), len(publishers))


def factors(rows: Sequence[Row]) -> dict[Class, Factor]:
    """Return the factor of every class that rows can be held out of."""
    cases: dict[Class, list[Case]] = {}
    for case in held_out(rows):
        cases.setdefault(case.of_class, []).append(case)
    return {each: factor(cases[each]) for each in CLASSES if each in cases}


@cache
def published() -> Mapping[Class, Factor]:
    """Return the factors of the measurements that come with the project."""
    return factors(shipped())


def borne_out(rows: Sequence[Row]) -> dict[Class, tuple[int, int]]:
    """Return by class how many rows lie within the factor of rows that others measured, of how
    many. The rows of a publisher have no part in the factor that they are compared with; in a class
    of fewer than three publishers, those of a type of GPU have none.
    """
    cases = list(held_out(rows))
    counts: dict[Class, tuple[int, int]] = {}
    for each in CLASSES:
        own = [case for case in cases if case.of_class == each]
        few = len({case.row.publisher for case in own}) < _FEW
        unit = attrgetter("gpu_type" if few else "publisher")
        inside = tested = 0
        for left in {unit(case.row) for case in own}:
            bounds = factors([row for row in rows if unit(row) != left]).get(each)
            judged = [case for case in own if unit(case.row) == left]
            if bounds is not None:
                tested += len(judged)
                inside += sum(bounds.holds(case.ratio) for case in judged)
        counts[each] = inside, tested
    return counts


def table(rows: Sequence[Row]) -> str:
    """Return the factors as a Markdown table."""
    lines = [
        "| basis | its rows | usual | factor | held-out rows | publishers"
        " | inside a factor of others |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    tested = borne_out(rows)
    for each, spread in factors(rows).items():
        inside, of = tested[each]
        lines.append(
            f"| {each[0]} | {each[1]} | {spread.usual:.2f} | {spread.off:.2f} | {spread.rows}"
            f" | {spread.publishers} | {inside} of {of} |"
        )
    return "\n".join(lines)


def filled(text: str) -> str:
    """Return a document with the table of the measurements that come with the project."""
    return TABLE.sub(lambda _: f"<!-- factors -->\n{table(shipped())}\n<!-- end -->", text)


def main() -> int:
    """Write the table of README.md, and print it."""
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    print(table(shipped()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
