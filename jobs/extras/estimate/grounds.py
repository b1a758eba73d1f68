"""Numbers with their grounds: formula, source and date. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jobs.extras.estimate.back_test import Key
from jobs.extras.estimate.fit import Value
from jobs.extras.estimate.published import Measurement
from jobs.throughput import Span

Basis = Literal["measured", "published", "assumed", "?"]
"""measured: by measured points; published: by measurements of this GPU with this kind of software;
assumed: of this GPU there are none, or with other software alone; ?: not known."""


@dataclass(frozen=True)
class Ground:
    """Where a number comes from."""

    name: str
    value: str
    formula: str = ""
    source: str = ""
    """With its date."""


@dataclass(frozen=True)
class Rate:
    """Throughput before anything of the input limits it."""

    images_per_s: Span
    single_node: float
    """Images/s of one node, in the middle."""
    one_gpu: float
    """Images/s of one GPU, in the middle."""
    basis: Basis
    key: Key
    """Class of the prediction."""
    grounds: tuple[Ground, ...]


def median_of(value: Value) -> str:
    return f"median of {len(value.rows)} measurements: {value.of}"


def sources(rows: Sequence[Measurement]) -> str:
    found = list(dict.fromkeys(f"{row.source} ({row.date})" for row in rows))
    more = f"; and {len(found) - 4} more in jobs/extras/estimate/measurements.csv"
    return "; ".join(found[:4]) + (more if len(found) > 4 else "")
