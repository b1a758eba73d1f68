"""Overhead of our training loop, compared with other loops, in worlds of ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, ratio, read_samples, table
from benchmarks.processes import in_world
from common.text import plural
from trainer.config import Positive

OURS, BARE_LOOP, CALLS, FIT = "our loop", "bare in-graph loop", "tf.function a step", "Keras fit"
GOALS: Final = {BARE_LOOP: 1.10, CALLS: 0.70}
"""Largest acceptable ratios of our CPU time to that of other loops."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of a step on a network of 20 small dense layers: our loop, a bare loop
    inside the graph, one tf.function call a step, and Keras fit.
    """

    ranks: Annotated[tuple[int, ...], Positive] = (1, 2)
    """World sizes to measure, one after the other."""

    rounds: Annotated[int, Positive] = 11
    """Number of turns of each contender."""

    steps: Annotated[int, Positive] = 1000
    """Steps per turn."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the loop in worlds of each size."""
    worlds = {
        ranks: in_world(
            "benchmarks.training.loop_contenders:measure",
            ranks,
            rounds=options.rounds,
            steps=options.steps,
        )["samples"]
        for ranks in options.ranks
    }
    return {"worlds": worlds}


def goals(data: Mapping[str, Any]) -> str:
    """Compare the ratios with the goals."""
    return "\n".join(
        f"{plural(int(ranks), 'rank')}: our loop / {other}"
        f" {ratio(read_samples(rounds), OURS, other).text()}; the goal is at most {goal:.2f}"
        for ranks, rounds in data["worlds"].items()
        for other, goal in GOALS.items()
    )


def show(data: Mapping[str, Any]) -> str:
    """Format a table for each world size."""
    parts = []
    for ranks, rounds in data["worlds"].items():
        samples = read_samples(rounds)
        parts += [f"{plural(int(ranks), 'rank')}:", table(samples, "step", [BARE_LOOP, CALLS])]
    return "\n\n".join(parts)
