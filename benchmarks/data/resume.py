"""Time until a resumed run reads its first record, in a data set of ImageNet's length.

The data set has 1,281,167 records in 1,024 shards, which are links to two files. Each measurement
is a process of its own: from the call that makes the input to its first record, and the bytes read
until nothing more is read ahead.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, columns, in_turns, spread
from benchmarks.processes import in_process
from trainer.config import Positive

POSITIONS: Final = {"begin": 0.0, "99.9 %": 0.999}
"""Fractions of an epoch that are done when reading begins."""
GOAL_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Seconds until the first record after a resume, and bytes read meanwhile, at the start and at
    the end of an epoch, in a data set of as many records as ImageNet.
    """

    payload: Annotated[int, Positive] = 10_000
    """Bytes per image."""

    worlds: Annotated[tuple[int, ...], Positive] = (1, 8)
    """Numbers of ranks that share the data set; rank 0 is measured."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each measurement."""

    scratch: str | None = None
    """Folder for the data set; by default the system's for temporary files."""


def measure(options: Options) -> dict[str, Any]:
    """Measure in turns."""
    contenders = {
        f"{ranks}, {name}": partial(
            in_process,
            "benchmarks.data.reading:first_record",
            ranks=ranks,
            position=position,
            payload=options.payload,
            scratch=options.scratch,
        )
        for ranks in options.worlds
        for name, position in POSITIONS.items()
    }
    return {"rounds": in_turns(contenders, options.rounds)}


def goals(_: Mapping[str, Any]) -> str:
    """Return the goal."""
    return f"the goal is a first record within {GOAL_SECONDS:g} s"


def show(data: Mapping[str, Any]) -> str:
    """Format seconds to the first record, and bytes read compared with two windows per stream."""
    rows = [["rank 0 of, epoch done", "first record, s", "MB read", "/ two windows a stream"]]
    for name, turns in data["rounds"].items():
        rows.append(
            [
                name,
                spread([turn["seconds"] for turn in turns]).text(),
                spread([turn["bytes"] / 1e6 for turn in turns]).text(".0f"),
                spread([turn["bytes"] / turn["bytes_of_two_windows"] for turn in turns]).text(),
            ]
        )
    return columns(rows)
