"""How well the forms predict measurements of publishers that they have not seen.

Each publisher is left out in turn: everything is fitted to the others, and predicts the rows of the
one. The ratios of measured and predicted throughput give the ranges of a plan. Whether these ranges
hold is tested in the same way: they are computed without a publisher, and counted on its rows.

`python -m jobs.estimate.back_test` writes the table of docs/plan.md. With the path of a file in the
form of measurements.csv, it predicts the rows of that file instead, which the project has not seen.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Final

from jobs.estimate.published import (
    RESNETS,
    UNLIKE_OTHERS,
    Fit,
    Measurement,
    read,
    relative_time,
    shipped,
    two_point,
    without,
    work,
)

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "plan.md"
TABLE: Final = re.compile(r"<!-- back-test -->\n.*?<!-- end -->", re.DOTALL)

CLASSES: Final[Mapping[str, tuple[str, str]]] = {
    "gpu": ("GPU type and precision", "one GPU"),
    "node": ("GPU type and precision", "one node"),
    "InfiniBand": ("GPU type and precision", "several nodes, InfiniBand"),
    "TCP": ("GPU type and precision", "several nodes, TCP"),
    "gpu-node": ("one GPU", "the whole node"),
    "gpu-InfiniBand": ("one GPU", "several nodes, InfiniBand"),
    "gpu-TCP": ("one GPU", "several nodes, TCP"),
    "node-InfiniBand": ("one node", "several nodes, InfiniBand"),
    "node-TCP": ("one node", "several nodes, TCP"),
    "two-InfiniBand": ("one and two nodes", "4 nodes and more, InfiniBand"),
    "two-TCP": ("one and two nodes", "4 nodes and more, TCP"),
    "depth": ("ResNet-50 on one GPU", "ResNet-101 and ResNet-152 on it"),
}
"""What is known, and what is predicted, by the name of a class. InfiniBand includes RoCE."""


@dataclass(frozen=True)
class Case:
    """One prediction of a measurement."""

    name: str
    """Class of the prediction."""
    row: Measurement
    predicted: float
    """Images/s, or efficiency where no throughput was published."""
    measured: float

    @property
    def error(self) -> float:
        """Deviation of the prediction as a fraction of what was measured."""
        return abs(self.predicted / self.measured - 1)

    @property
    def ratio(self) -> float:
        """Measured throughput in predicted ones."""
        return self.measured / self.predicted


@dataclass(frozen=True)
class Range:
    """The 5th to the 95th percentile of measured throughput, in predicted ones."""

    low: float
    high: float
    rows: int

    def holds(self, case: Case) -> bool:
        return self.low <= case.ratio <= self.high


@dataclass(frozen=True)
class Score:
    """How well a class was predicted."""

    rows: int
    median: float
    """Median error, as a fraction."""
    ninth_decile: float
    """Error that 90 % of the rows do not exceed."""
    within_tenth: float
    """Share of the rows with an error of at most 10 %."""
    range: Range
    coverage: float | None
    """Share of left-out rows in the range that others gave; None if there is one publisher."""


def predictions(fit: Fit, row: Measurement, own: Fit) -> Iterator[Case]:
    """Predict a measurement in every class that fits it.

    Args:
        fit: Values of other publishers.
        row: Measurement to predict.
        own: Measurements of the row's own system, some of which a class takes as known.
    """
    kind = row.network or "node"
    if row.model != UNLIKE_OTHERS:
        a = 0.0 if row.gpus_per_node == 1 else fit.inside(row.link, row.precision).amount
        b = fit.between(row.network).amount if row.network else 0.0
        time = relative_time(a, b, row.gpus_per_node, row.nodes)
        cold = _cold(fit, row)
        if cold is not None and row.images_per_s:
            predicted = cold * row.gpus / time
            yield Case("gpu" if row.gpus == 1 else kind, row, predicted, row.images_per_s)
        if row.efficiency and row.gpus > 1 and row.images_per_s:
            yield Case(f"gpu-{kind}", row, 1 / time, row.efficiency)
        node = own.whole_node(row) if row.nodes > 1 else None
        if node is not None and node.images_per_s and row.images_per_s:
            alone = relative_time(a, 0, row.gpus_per_node, 1)
            predicted = node.images_per_s * row.nodes * alone / time
            yield Case(f"node-{kind}", row, predicted, row.images_per_s)
    if row.gpus == 1 and row.images_per_s and row.model in RESNETS and row.model != "ResNet-50":
        shallow = own.shallow(row)
        if shallow is not None and shallow.images_per_s:
            yield Case("depth", row, shallow.images_per_s / work(row.model), row.images_per_s)
    one, two = own.whole_node(row), own.whole_node(row, 2)
    if row.nodes > 2 and one and two and one.images_per_s and two.images_per_s and row.images_per_s:
        seconds = two_point(1 / one.images_per_s, 2 / two.images_per_s, row.nodes)
        yield Case(f"two-{kind}", row, row.nodes / seconds, row.images_per_s)


def cases(rows: Sequence[Measurement]) -> list[Case]:
    """Predict the rows of every publisher from those of the others."""
    own = Fit(rows)
    found: list[Case] = []
    for publisher in sorted({row.publisher for row in own.rows}):
        found += _cases_of(publisher, rows, own)
    return found


def unseen(rows: Sequence[Measurement], known: Sequence[Measurement]) -> dict[str, Score]:
    """Score measurements from what others have published, with the ranges of these.

    Args:
        rows: Measurements to predict.
        known: Measurements to predict them from; those of the same publisher count only as what is
            known of a system.
    """
    new, own, scored = set(rows), Fit((*known, *rows)), _Scored()
    for publisher in sorted({row.publisher for row in rows}):
        others = without(known, publisher)
        found = (case for case in _cases_of(publisher, others, own) if case.row in new)
        scored.add(list(found), ranges(cases(others)))
    return scored.scores()


def ranges(found: Iterable[Case]) -> dict[str, Range]:
    """Return the range of every class that has cases."""
    ratios: dict[str, list[float]] = {}
    for case in found:
        ratios.setdefault(case.name, []).append(case.ratio)
    return {
        name: Range(quantile(own, 0.05), quantile(own, 0.95), len(own))
        for name, own in ratios.items()
    }


def back_test(rows: Sequence[Measurement]) -> dict[str, Score]:
    """Score every class on a set of measurements."""
    found, scored = cases(rows), _Scored()
    for publisher in dict.fromkeys(case.row.publisher for case in found):
        own = [case for case in found if case.row.publisher == publisher]
        scored.add(own, ranges(cases(without(rows, publisher))))
    return scored.scores()


class _Scored:
    """Cases, and which of them lie in ranges that their publisher had no part in."""

    def __init__(self) -> None:
        self._cases: dict[str, list[Case]] = {}
        self._held: dict[str, list[bool]] = {}

    def add(self, found: Iterable[Case], bounds: Mapping[str, Range]) -> None:
        """Add the cases of a publisher, with the ranges of the others."""
        for case in found:
            self._cases.setdefault(case.name, []).append(case)
            if case.name in bounds:
                self._held.setdefault(case.name, []).append(bounds[case.name].holds(case))

    def scores(self) -> dict[str, Score]:
        """Return the score of every class that has cases."""
        return {name: self._score(name) for name in CLASSES if name in self._cases}

    def _score(self, name: str) -> Score:
        found, inside = self._cases[name], self._held.get(name)
        errors = [case.error for case in found]
        return Score(
            len(found),
            median(errors),
            quantile(errors, 0.9),
            sum(error <= 0.1 for error in errors) / len(errors),
            ranges(found)[name],
            sum(inside) / len(inside) if inside else None,
        )


@cache
def published() -> tuple[Fit, Mapping[str, Range]]:
    """Return the values and the ranges of the measurements that come with the project."""
    return Fit(shipped()), ranges(cases(shipped()))


@cache
def scores() -> Mapping[str, Score]:
    """Return the scores of the measurements that come with the project."""
    return back_test(shipped())


def quantile(values: Iterable[float], part: float) -> float:
    """Return a quantile, interpolated linearly between the two values beside it."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def table(found: Mapping[str, Score]) -> str:
    """Return the scores as a Markdown table."""
    lines = [
        "| what is known | predicts | rows | median error | 90th percentile | within 10 %"
        " | range | left-out rows in it |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, score in found.items():
        known, predicted = CLASSES[name]
        coverage = "one publisher" if score.coverage is None else f"{score.coverage:.0%}"
        lines.append(
            f"| {known} | {predicted} | {score.rows} | {score.median:.1%}"
            f" | {score.ninth_decile:.1%} | {score.within_tenth:.0%}"
            f" | x {score.range.low:.2f} to {score.range.high:.2f} | {coverage} |"
        )
    return "\n".join(lines)


def filled(text: str) -> str:
    """Return a document with the table of the shipped measurements."""
    return TABLE.sub(lambda _: f"<!-- back-test -->\n{table(scores())}\n<!-- end -->", text)


def _cases_of(publisher: str, rows: Sequence[Measurement], own: Fit) -> Iterator[Case]:
    fit = Fit(without(rows, publisher))
    for row in own.rows:
        if row.publisher == publisher:
            try:
                yield from predictions(fit, row, own)
            except LookupError:
                # Nobody else measured such a link or network.
                continue


def _cold(fit: Fit, row: Measurement) -> float | None:
    """Return images/s of one GPU from its type, precision and, if others used it, software."""
    if row.model not in RESNETS or row.image_size != 224:
        return None
    found = fit.single(row.gpu_type, row.precision, row.software) or fit.single(
        row.gpu_type, row.precision, None
    )
    return found.amount / work(row.model) if found else None


def main(arguments: Sequence[str]) -> int:
    """Write the table of docs/plan.md and print it, or print that of a file's rows."""
    if arguments:
        rows = [row for name in arguments for row in read(Path(name))]
        print(table(unseen(rows, shipped())))
        return 0
    DOCUMENT.write_text(filled(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
    print(table(scores()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
