"""How well the forms predict measurements of publishers that they have not seen.

Each publisher is left out in turn: everything is fitted to the others, and predicts the rows of the
one. The ratios of measured and predicted throughput give the ranges of a plan, one for each class:
what is known and predicted, generation of the GPU, and precision. Whether these ranges hold is
tested in the same way: they are computed without a publisher, and counted on its rows.

A publisher's rows deviate together, so that a range is one for the next publisher: Student's t of
the publishers' medians, and the rows' spread around these. A class has few publishers, so its
variance and centre are drawn towards those of all generations and precisions, as if these were
`_PRIOR` publishers more (a moderated t, as of Smyth 2004).

`python -m jobs.extras.estimate.back_test` prints the table of all classes. With the path of a
file in the form of measurements.csv, it predicts the rows of that file instead, which the
project has not seen.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, log, sqrt
from pathlib import Path
from statistics import fmean, median
from typing import Final

from jobs.extras.estimate.fit import UNLIKE_OTHERS, Fit, relative_time, two_point, work
from jobs.extras.estimate.published import RESNETS, Measurement, read, shipped, without

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
    "data": ("a system with synthetic data", "the system with real data"),
}
"""What is known, and what is predicted, by the name of a kind. InfiniBand includes RoCE."""
FEW: Final = 10
"""Rows below which the coverage of a class says little; the document has one line for all these."""
_PRIOR: Final = 2
"""Publishers for which all classes of a kind count in the range of one of them."""
_T95: Final = (6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81)
"""95th percentile of Student's t, by degrees of freedom from 1."""
_ONE_UNIT: Final = 0.2
"""Standard deviation of logarithms that is assumed where one publisher alone has measured."""

Key = tuple[str, str, str]
"""A class: kind, generation of the GPU, and precision."""


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
    def key(self) -> Key:
        """Its class."""
        return self.name, self.row.generation, self.row.precision

    @property
    def system(self) -> str:
        """What was measured together: GPUs of one type in one of a publisher's systems."""
        return f"{self.row.series.split('/')[0]}, {self.row.gpu_type}"

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
    """Rows of the class itself."""
    publishers: int
    """Publishers of these; systems, if all are of one publisher."""

    def holds(self, ratio: float) -> bool:
        return self.low <= ratio <= self.high

    def also(self, other: "Range") -> "Range":
        """Return the range of two independent deviations: their logarithms add as squares."""
        low, high = (
            sqrt(log(mine) ** 2 + log(its) ** 2)
            for mine, its in ((self.low, other.low), (self.high, other.high))
        )
        return Range(exp(-low), exp(high), self.rows, self.publishers)


class Ranges:
    """The range of every class.

    Args:
        found: Predictions, of rows that had no part in them.
    """

    def __init__(self, found: Iterable[Case]) -> None:
        self._kinds: dict[str, list[Case]] = {}
        for case in found:
            self._kinds.setdefault(case.name, []).append(case)
        self._known: dict[Key, Range | None] = {}

    def of(self, key: Key) -> Range | None:
        """Return the range of a class; None if there is no prediction of its kind. A class without
        rows has the range of its kind.
        """
        if key not in self._known:
            self._known[key] = self._made(key)
        return self._known[key]

    def _made(self, key: Key) -> Range | None:
        groups: dict[tuple[Key, str], list[float]] = {}
        cases_of_kind = self._kinds.get(key[0], [])
        # The systems of a publisher stand for publishers where there is no other one.
        alone = len({case.row.publisher for case in cases_of_kind}) < 2
        for case in cases_of_kind:
            unit = case.system if alone else case.row.publisher
            groups.setdefault((case.key, unit), []).append(log(case.ratio))
        if not groups:
            return None
        middles = {group: median(values) for group, values in groups.items()}
        own = [middle for (each, _), middle in middles.items() if each == key]
        every, count = fmean(middles.values()), len(own)
        centre = (sum(own) + every) / (count + 1)
        freedom = max(len(middles) - 1, 0)
        wide = (
            sum((middle - every) ** 2 for middle in middles.values()) / freedom
            if freedom
            else _ONE_UNIT**2
        )
        mean, prior = (fmean(own) if own else every), min(max(freedom, 1), _PRIOR)
        degrees = prior + max(count - 1, 0)
        variance = (prior * wide + sum((middle - mean) ** 2 for middle in own)) / degrees
        apart = _T95[min(degrees, len(_T95)) - 1] * sqrt(variance * (1 + 1 / (count + 1)))
        rests = {
            group: [value - middles[group] for value in values] for group, values in groups.items()
        }
        mine = [rest for group, values in rests.items() if group[0] == key for rest in values]
        used = mine if len(mine) >= FEW else [one for values in rests.values() for one in values]
        low, high = (sqrt(apart**2 + quantile(used, part) ** 2) for part in (0.05, 0.95))
        return Range(exp(centre - low), exp(centre + high), len(mine), count)


@dataclass(frozen=True)
class Score:
    """How well a class was predicted."""

    rows: int
    median: float
    """Median error, as a fraction."""
    ninth_decile: float
    """Error that 90 % of the rows do not exceed."""
    range: Range
    held: int | None
    """Left-out rows in the range that others gave; None if there is one publisher."""
    by_system: bool = False
    """Whether the systems of one publisher were left out instead."""

    @property
    def coverage(self) -> float | None:
        """Share of left-out rows in the range that others gave."""
        return None if self.held is None else self.held / self.rows


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
        b = fit.between(row.network, row.precision).amount if row.network else 0.0
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
    synthetic = own.synthetic(row)
    if synthetic is not None and synthetic.images_per_s and row.images_per_s:
        yield Case("data", row, synthetic.images_per_s, row.images_per_s)
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


def unseen(rows: Sequence[Measurement], known: Sequence[Measurement]) -> dict[Key, Score]:
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
        scored.add(list(found), Ranges(cases(others)))
    return scored.scores()


def back_test(rows: Sequence[Measurement]) -> dict[Key, Score]:
    """Score every class on a set of measurements."""
    found, scored = cases(rows), _Scored()
    for publisher in dict.fromkeys(case.row.publisher for case in found):
        own = [case for case in found if case.row.publisher == publisher]
        scored.add(own, Ranges(cases(without(rows, publisher))))
    for kind in _OWN:
        own = [case for case in found if case.name == kind]
        if len({case.row.publisher for case in own}) == 1:
            for system in {case.system for case in own}:
                others = Ranges(case for case in own if case.system != system)
                scored.add_systems((case for case in own if case.system == system), others)
    return scored.scores(Ranges(found))


_OWN: Final = ("two-InfiniBand", "two-TCP", "data")
"""Kinds whose predictions rest on measurements of the same system alone, so that systems of one
publisher can be left out as well."""


class _Scored:
    """Cases, and which of them lie in ranges that their publisher had no part in."""

    def __init__(self) -> None:
        self._systems: set[Key] = set()
        self._cases: dict[Key, list[Case]] = {}
        self._ranges: dict[Key, Range] = {}
        self._held: dict[Key, int] = {}
        self._tested: dict[Key, int] = {}

    def add(self, found: Iterable[Case], bounds: Ranges) -> None:
        """Add the cases of a publisher, with the ranges of the others."""
        for case in found:
            self._cases.setdefault(case.key, []).append(case)
            others = bounds.of(case.key)
            if others is not None:
                self._ranges[case.key] = others
                self._tested[case.key] = self._tested.get(case.key, 0) + 1
                self._held[case.key] = self._held.get(case.key, 0) + others.holds(case.ratio)

    def add_systems(self, found: Iterable[Case], bounds: Ranges) -> None:
        """Judge cases, which were added before, by the ranges of other systems."""
        for case in found:
            others = bounds.of(case.key)
            if others is not None:
                self._systems.add(case.key)
                self._tested[case.key] = self._tested.get(case.key, 0) + 1
                self._held[case.key] = self._held.get(case.key, 0) + others.holds(case.ratio)

    def scores(self, printed: Ranges | None = None) -> dict[Key, Score]:
        """Return the score of every class that has cases, in the order of `CLASSES`.

        Args:
            printed: Ranges of the classes; None takes those by which the rows were judged.
        """
        order = list(CLASSES)
        found = {}
        for key in sorted(self._cases, key=lambda one: (order.index(one[0]), *one[1:])):
            own = self._cases[key]
            errors = [case.error for case in own]
            used = printed.of(key) if printed else self._ranges.get(key)
            tested = self._tested.get(key, 0) == len(own)
            found[key] = Score(
                len(own),
                median(errors),
                quantile(errors, 0.9),
                used or Range(1.0, 1.0, 0, 0),
                self._held.get(key, 0) if tested else None,
                key in self._systems,
            )
        return found


@cache
def published() -> tuple[Fit, Ranges]:
    """Return the values and the ranges of the measurements that come with the project."""
    return Fit(shipped()), Ranges(cases(shipped()))


@cache
def scores() -> Mapping[Key, Score]:
    """Return the scores of the measurements that come with the project."""
    return back_test(shipped())


def quantile(values: Iterable[float], part: float) -> float:
    """Return a quantile, interpolated linearly between the two values beside it."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def table(found: Mapping[Key, Score], few: int = FEW) -> str:
    """Return the scores as a Markdown table.

    Args:
        found: Scores by class.
        few: Rows below which classes are summed up in one line of their kind.
    """
    lines = [
        "| what is known | predicts | GPUs, precision | rows | median error | 90th percentile"
        " | range | left-out rows in it |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for kind, (known, predicted) in CLASSES.items():
        own = {key: score for key, score in found.items() if key[0] == kind}
        for key, score in own.items():
            if score.rows >= few:
                covered = score.coverage
                held = "one publisher" if covered is None else f"{covered:.0%}"
                held += ", by system" if score.by_system else ""
                lines.append(
                    f"| {known} | {predicted} | {key[1]}, {key[2]} | {score.rows}"
                    f" | {score.median:.1%} | {score.ninth_decile:.1%}"
                    f" | x {score.range.low:.2f} to {score.range.high:.2f} | {held} |"
                )
        small = [score for score in own.values() if score.rows < few]
        tested = [score for score in small if score.held is not None]
        if small:
            rows = sum(score.rows for score in tested)
            held = f"{sum(score.held or 0 for score in tested)} of {rows}" if rows else "-"
            lines.append(
                f"| {known} | {predicted} | {len(small)} smaller classes"
                f" | {sum(score.rows for score in small)} | | | | {held} |"
            )
    return "\n".join(lines)


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
    """Print the table of the shipped measurements, or that of a file's rows."""
    if arguments:
        rows = [row for name in arguments for row in read(Path(name))]
        print(table(unseen(rows, shipped()), 1))
        return 0
    print(table(scores()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
