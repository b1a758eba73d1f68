"""Cost of an exchange of ResNet50's gradients, and the bytes that it sends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from benchmarks.measure import BenchmarkOptions, columns, ratio, read_samples, table
from benchmarks.processes import in_world
from common.annotations import Bounds
from trainer.config import Positive

BARE, TAPE = "bare grouped all-reduce", "DistributedGradientTape"
UNSCALE = "loss scale: check and divide"


def ours(groups: int) -> str:
    """Return the name of our exchange in a number of groups."""
    return "ours, 1 group" if groups == 1 else f"ours, {groups} groups"


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of an exchange of ResNet50's gradients: ours in 1, 2 and 4 groups and with a
    loss scale, one bare grouped all-reduce, and DistributedGradientTape. The bytes sent are checked
    against the formula of a ring.
    """

    ranks: Annotated[int, Bounds(at_least=2)] = 2
    """World size."""

    rounds: Annotated[int, Positive] = 11
    """Number of turns of each contender."""

    exchanges: Annotated[int, Positive] = 8
    """Exchanges per turn."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the exchange."""
    return in_world("benchmarks.training.exchange_contenders:measure", **options.settings())


def show(data: Mapping[str, Any]) -> str:
    """Format the times of all contenders, and the bytes that they send."""
    samples = read_samples(data["samples"])
    rows = [["", "MB sent by a rank", "ring's formula", f"wall / {BARE}"]]
    for name, (seen, formula) in data["sent"].items():
        elapsed = ratio(samples, name, BARE, "wall_ms").text()
        rows.append([name, f"{seen / 1e6:.2f}", f"{formula / 1e6:.2f}", elapsed])
    return f"{table(samples, 'exchange', [BARE])}\n\n{columns(rows)}"
