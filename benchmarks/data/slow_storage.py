"""Cost of slow storage: images/s of the input when every read takes longer.

A preloaded library (LD_PRELOAD) lets each read of a shard sleep first. Runs without and with delays
take turns, each in a process of its own that reads, decodes and crops more than an epoch. The time
until the first batch is reported separately.
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.measure import BenchmarkOptions, columns, in_turns, spread
from benchmarks.processes import in_process
from trainer.config import Positive

LIBRARY_CODE: Final = Path(__file__).with_name("slow_reads.c")
GOAL: Final = 0.9
"""Least acceptable ratio of the speed to that without delay."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Images/s of the input when every read of a shard takes some milliseconds longer, compared
    with no delay.
    """

    data: str | None = None
    """Folder of a data set; by default a temporary one of noise."""

    images: Annotated[int, Positive] = 4000
    """Images of the data set of noise."""

    milliseconds: Annotated[tuple[int, ...], Positive] = (20,)
    """Delays of a read, in milliseconds."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of the input, in pixels."""

    batch_size: Annotated[int, Positive] = 64
    """Images per batch."""

    batches: Annotated[int, Positive] = 72
    """Batches that are timed."""

    streams: Annotated[int, Positive] = 64
    """Same as --data.streams of a training."""

    window: Annotated[int, Positive] = 512
    """Same as --data.shuffle-window of a training."""

    rounds: Annotated[int, Positive] = 5
    """Number of turns of each delay."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the delays in turns."""
    with tempfile.TemporaryDirectory() as scratch:
        library = compile_library(Path(scratch))
        data = options.data or f"{scratch}/noise"
        if options.data is None:
            in_process("benchmarks.data.reading:write_noise", folder=data, images=options.images)
        contenders = {
            str(milliseconds): partial(
                in_process,
                "benchmarks.data.reading:batch_rate",
                {"LD_PRELOAD": str(library), "SLOW_READ_MS": str(milliseconds)},
                data=data,
                image_size=options.image_size,
                batch_size=options.batch_size,
                batches=options.batches,
                streams=options.streams,
                window=options.window,
            )
            for milliseconds in (0, *options.milliseconds)
        }
        return {"rounds": in_turns(contenders, options.rounds)}


def goals(_: Mapping[str, Any]) -> str:
    """Return the goal."""
    return f"the goal is at least {GOAL:.2f} of the speed without delay"


def compile_library(folder: Path, code: Path = LIBRARY_CODE) -> Path:
    """Compile a library that slows reads down."""
    library = folder / f"{code.stem}.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(code), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library


def show(data: Mapping[str, Any]) -> str:
    """Format speed, start-up time and CPU time by delay."""
    rounds = data["rounds"]
    rows = [["a read takes longer by", "images/s", "/ without", "first batch, s", "CPU-ms/image"]]
    for milliseconds, turns in rounds.items():
        rows.append(
            [
                f"{milliseconds} ms",
                spread([turn["images_per_second"] for turn in turns]).text(".0f"),
                spread(ratios(rounds, milliseconds)).text(),
                spread([turn["first_batch_seconds"] for turn in turns]).text(),
                spread([turn["cpu_ms_per_image"] for turn in turns]).text(),
            ]
        )
    return columns(rows)


def ratios(rounds: Mapping[str, Sequence[Mapping[str, float]]], milliseconds: str) -> list[float]:
    """Return the ratio of the speed to that without delay, formed within each round."""
    pairs = zip(rounds[milliseconds], rounds["0"], strict=True)
    return [slow["images_per_second"] / fast["images_per_second"] for slow, fast in pairs]
