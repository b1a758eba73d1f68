"""What a mount of remote storage caches: whole files when opened, or blocks as they are read.

A preloaded library (LD_PRELOAD) imitates both kinds of cache, over a link with a given bandwidth
that all reads of the node share. A process reads as one node of a training on ImageNet-sized shards
would: in the trainer's order, at the speed of the training. Both kinds take turns.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from benchmarks.data.slow_storage import compile_library
from benchmarks.measure import BenchmarkOptions, columns, in_turns, spread
from benchmarks.processes import in_process
from trainer.config import Positive

LIBRARY_CODE: Final = Path(__file__).with_name("slow_mount.c")
KINDS: Final = ("files", "blocks")


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """How long a node waits for its records if its mount caches whole files, or blocks."""

    nodes: Annotated[int, Positive] = 2
    """Nodes that share the data set; the first one is imitated."""

    megabytes_per_second: Annotated[int, Positive] = 1000
    """What the node gets from storage, in MB/s."""

    milliseconds: Annotated[int, Positive] = 20
    """Time of a request to storage, in milliseconds."""

    images_per_second: Annotated[int, Positive] = 2700
    """Records that the node's GPUs use, per second."""

    payload: Annotated[int, Positive] = 110_000
    """Bytes of an image; a shard has 1,251 or 1,252 of them."""

    batch: Annotated[int, Positive] = 2048
    """Records that the node uses at once."""

    batches: Annotated[int, Positive] = 24
    """Batches that are read; the first is timed on its own."""

    rounds: Annotated[int, Positive] = 3
    """Number of turns of each kind."""


def measure(options: Options) -> dict[str, Any]:
    """Measure both kinds in turns."""
    with tempfile.TemporaryDirectory() as scratch:
        library = compile_library(Path(scratch), LIBRARY_CODE)
        contenders = {
            kind: partial(
                in_process,
                "benchmarks.data.reading:waiting",
                {
                    "LD_PRELOAD": str(library),
                    "SLOW_MOUNT": kind,
                    "SLOW_MOUNT_MBPS": str(options.megabytes_per_second),
                    "SLOW_MOUNT_MS": str(options.milliseconds),
                },
                nodes=options.nodes,
                payload=options.payload,
                batch=options.batch,
                batches=options.batches,
                images_per_second=options.images_per_second,
            )
            for kind in KINDS
        }
        return {"rounds": in_turns(contenders, options.rounds)}


def show(data: Mapping[str, Any]) -> str:
    """Format the waiting times by kind of cache."""
    rows = [["the mount caches", "first batch, s", "waits later, s", "longest, s", "data wait"]]
    for kind, turns in data["rounds"].items():
        rows.append(
            [
                kind,
                spread([turn["first_seconds"] for turn in turns]).text(".1f"),
                spread([turn["waited_seconds"] for turn in turns]).text(".1f"),
                spread([turn["longest_seconds"] for turn in turns]).text(".1f"),
                spread([100 * turn["waited_share"] for turn in turns]).text(".0f") + " %",
            ]
        )
    return columns(rows)
