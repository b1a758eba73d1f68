"""Measurement of contenders in turns, and the statistics and output of their times.

On a shared machine a single time says little: contenders run one after the other in every round,
the figure is the median over rounds with its range, ratios are formed within a round, and CPU time,
which the load of others affects least, is reported before elapsed time.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from common.files import write_atomically
from trainer.diagnostics.environment import environment
from trainer.distributed.communicator import Communicator

Result = TypeVar("Result")
Options = TypeVar("Options", bound="BenchmarkOptions")


@dataclass(frozen=True)
class Sample:
    """One contender in one round."""

    cpu_ms: float
    """CPU time of a unit of work in milliseconds, all threads, mean over ranks."""
    wall_ms: float
    """Elapsed time of a unit of work in milliseconds, on the slowest rank."""


Samples = dict[str, list[Sample]]
"""Rounds of each contender, in the order of turns."""


def take_turns(
    contenders: Mapping[str, Callable[[], int]],
    rounds: int,
    world: Communicator,
    *,
    settle: bool = False,
) -> Samples:
    """Run contenders in turns, after a first round that is not counted.

    Args:
        contenders: Contenders by name; each does some units of work and returns their number.
        rounds: Number of measurements of each.
        world: World of ranks, which measure together; rank 0 reports progress.
        settle: Whether to wait until a contender's background threads are idle, and count their
            CPU time too. Otherwise work done ahead would count for the next contender.
    """

    def say(text: str) -> None:
        if world.rank == 0:
            print(text, flush=True)

    for name, work in contenders.items():
        world.barrier()
        start = time.perf_counter()
        work()
        if settle:
            _settle()
        say(f"warmed up {name} in {time.perf_counter() - start:.1f} s")
    samples: Samples = {name: [] for name in contenders}
    for number in range(rounds):
        for name, work in contenders.items():
            world.barrier()
            cpu, wall = time.process_time(), time.perf_counter()
            units = work()
            wall = time.perf_counter() - wall
            if settle:
                _settle()
            cpu = time.process_time() - cpu
            ranks = world.gather([1000 * cpu / units, 1000 * wall / units])
            cpu_ms = statistics.mean(rank[0] for rank in ranks)
            samples[name].append(Sample(cpu_ms, max(rank[1] for rank in ranks)))
        say(f"round {number + 1} of {rounds}")
    return samples


def in_turns(
    contenders: Mapping[str, Callable[[], Result]], rounds: int
) -> dict[str, list[Result]]:
    """Call contenders in turns, and return the results of each.

    Args:
        contenders: Contenders by name; each returns its figures.
        rounds: Number of calls of each.
    """
    results: dict[str, list[Result]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, work in contenders.items():
            results[name].append(work())
        print(f"round {number + 1} of {rounds}", flush=True)
    return results


def _settle() -> None:
    """Wait until this process uses hardly any CPU time."""
    pause, idle = 0.05, 0.02
    before, now = float("-inf"), time.process_time()
    while now - before > idle * pause:
        time.sleep(pause)
        before, now = now, time.process_time()


@dataclass(frozen=True)
class Spread:
    """A median and its range."""

    median: float
    low: float
    high: float

    def text(self, form: str = ".2f") -> str:
        """Format the median followed by the range."""
        return f"{self.median:{form}} ({self.low:{form}}-{self.high:{form}})"


def spread(values: Sequence[float]) -> Spread:
    """Return median, lowest and highest of some values."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(samples: Samples, name: str, reference: str, clock: str = "cpu_ms") -> Spread:
    """Return the ratio of a contender's time to another's, formed within each round."""
    pairs = zip(samples[name], samples[reference], strict=True)
    return spread([getattr(a, clock) / getattr(b, clock) for a, b in pairs])


def table(samples: Samples, unit: str, references: Sequence[str]) -> str:
    """Format a table of all contenders: times, and ratios to some of them."""
    head = ["", f"CPU-ms/{unit}", f"wall-ms/{unit}", *(f"/ {name}" for name in references)]
    rows = [
        [
            name,
            spread([sample.cpu_ms for sample in rounds]).text(),
            spread([sample.wall_ms for sample in rounds]).text(),
            *(ratio(samples, name, reference).text() for reference in references),
        ]
        for name, rounds in samples.items()
    ]
    return columns([head, *rows])


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of every benchmark that measures."""

    json: str | None = None
    """File for the raw rounds."""

    def settings(self) -> dict[str, Any]:
        """Return all options that affect the measurement, by name."""
        return {name: value for name, value in asdict(self).items() if name != "json"}


def publish(
    benchmark: str,
    options: Options,
    measure: Callable[[Options], Mapping[str, Any]],
    show: Callable[[Mapping[str, Any]], str],
) -> dict[str, Any]:
    """Measure, print the results, and write them with every round if a file is given.

    Args:
        benchmark: Name of the benchmark.
        options: Options of the benchmark.
        measure: Returns the results.
        show: Formats the content of the file as tables.

    Returns:
        The content of the file.
    """
    facts = {"benchmark": benchmark, "environment": environment(), **measure(options)}
    text = to_json({**facts, "load_average_after": os.getloadavg(), "options": options})
    data: dict[str, Any] = json.loads(text)
    print("\n" + show(data))
    if options.json is not None:
        write_atomically(Path(options.json), text + "\n")
    return data


def read_samples(samples: Mapping[str, Sequence[Mapping[str, float]]]) -> Samples:
    """Read samples from JSON data."""
    return {name: [Sample(**sample) for sample in rounds] for name, rounds in samples.items()}


def to_json(data: Mapping[str, Any]) -> str:
    """Convert plain data and dataclasses to JSON."""

    def plain(value: object) -> object:
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        raise TypeError(type(value).__name__)

    return json.dumps(data, indent=1, default=plain)
