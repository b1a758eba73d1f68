"""Memory of a rank's input by the length of the data set, compared with the stated bound.

Reads a whole epoch of noise at 224 pixels, each length in a process of its own, and compares the
growth of its resident memory with `trainer.data.source.input_memory`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, columns, in_turns, spread
from benchmarks.processes import in_process
from trainer.config import Positive

LENGTHS: Final = (8000, 32_000)
"""Numbers of images of the data sets."""
GOAL: Final = 1.1
"""Largest acceptable ratio of the memory with more images to that with fewer."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """MiB that the input of a rank adds to its resident memory over an epoch of noise, for data
    sets of 8,000 and 32,000 images, compared with the stated bound.
    """

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each length."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the lengths in turns."""
    contenders = {
        str(images): partial(in_process, "benchmarks.data.reading:epoch_memory", images=images)
        for images in LENGTHS
    }
    return {"rounds": in_turns(contenders, options.rounds)}


def show(data: Mapping[str, Any]) -> str:
    """Format a table of memory by length of the data set."""
    rounds = {int(images): turns for images, turns in data["rounds"].items()}
    rows = [["images", "MiB held", "MiB at most, by the formula"]]
    for images, turns in rounds.items():
        held = spread([turn["mib"] for turn in turns]).text(".0f")
        rows.append([f"{images:,}", held, f"{turns[0]['bound_mib']:.0f}"])
    few, many = (rounds[images] for images in sorted(rounds))
    more = spread([b["mib"] / a["mib"] for a, b in zip(few, many, strict=True)])
    times = max(rounds) // min(rounds)
    return (
        f"{columns(rows)}\n\n{times} times the images hold {more.text()} times the memory; the"
        f" goal is at most {GOAL}"
    )
