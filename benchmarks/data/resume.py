"""How soon a run reads its first record after a resume, in a data set of ImageNet's length.

    .venv-trainer/bin/python -m benchmarks resume --json build/resume.json

The data set has 1,281,167 records in 1,024 shards, which are links to two files. Each measurement
is a process of its own: from the call that makes the input to its first record, and the bytes read
until nothing more is read ahead.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.measure import columns, spread, write_json
from trainer.config import DataConfig
from trainer.data.example import Record, to_example
from trainer.data.manifest import Shard, Split
from trainer.data.order import Order
from trainer.data.source import Source
from trainer.data.tfrecord import ShardWriter, shard_name
from trainer.diagnostics.environment import environment

EXAMPLES, SHARDS = 1_281_167, 1024
POSITIONS = {"begin": 0.0, "99.9 %": 0.999}
"""Parts of an epoch that are done when reading begins."""

GOAL_SECONDS = 2.0


def write_set(folder: Path, payload: int) -> Source:
    """Shards of ImageNet's number and lengths, all links to one of two files.

    Args:
        folder: to write.
        payload: bytes of an image.
    """
    short, longer = EXAMPLES // SHARDS, EXAMPLES % SHARDS
    written = {length: _write_shard(folder, length, payload) for length in (short, short + 1)}
    shards = []
    for number in range(SHARDS):
        original = written[short + (number < longer)]
        name = shard_name("train", number, SHARDS)
        os.link(folder / original.file, folder / name)
        shards.append(
            Shard(name, original.examples, original.bytes, original.xxh128, original.index)
        )
    split = Split(tuple(shards), (EXAMPLES,), ("JPEG",))
    return Source(folder, split, 1, 224, DataConfig(dir=str(folder)), 0)


def _write_shard(folder: Path, length: int, payload: int) -> Shard:
    serialized = to_example(Record(bytes(payload), "JPEG", 1, 1, 0, "0", "0.jpg"))
    with ShardWriter(folder / f"of-{length}.tfrecord") as writer:
        for _ in range(length):
            writer.write(serialized)
    return writer.shard()


def be_measured(args: argparse.Namespace) -> None:
    """Read the first record, wait until nothing more is read, and print what it took."""
    # TensorFlow is slow to import, and the process that only waits needs none.
    import tensorflow as tf  # noqa: PLC0415

    from trainer.data.pipeline import make_order, training_examples  # noqa: PLC0415

    with tempfile.TemporaryDirectory(dir=args.scratch) as folder:
        source = write_set(Path(folder), args.payload)
        position = int(EXAMPLES * args.position)
        tf.data.Dataset.range(1).get_single_element()
        before = bytes_read()
        begin = time.perf_counter()
        iterator = iter(training_examples(source, 0, args.ranks, position))
        next(iterator)
        seconds = time.perf_counter() - begin
        read = _settled() - before
        ahead = records_ahead(make_order(source, args.ranks), position)
        size = source.split.bytes / source.split.examples
        found = {"seconds": seconds, "bytes": read, "bytes_of_two_windows": ahead * size}
    print(json.dumps(found), flush=True)
    # Ending the iterator would wait for what is being read.
    os._exit(0)


def records_ahead(order: Order, position: int) -> int:
    """Records in the first two windows of each of rank 0's streams."""
    return sum(
        segment.count
        for turn in range(order.streams_per_rank)
        for window in islice(order.endless_windows(0, turn, position), 2)
        for segment in window.segments
    )


def bytes_read() -> int:
    """Bytes that this process has read so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def _settled() -> int:
    """Bytes read when half a second has passed without much more."""
    before, now = -1, bytes_read()
    while now - before > 1 << 16:
        time.sleep(0.5)
        before, now = now, bytes_read()
    return now


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--payload", type=int, default=10_000, help="bytes of an image (10000)")
    parser.add_argument("--worlds", type=int, nargs="+", default=[1, 8], help="ranks (1 8)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (5)")
    parser.add_argument("--scratch", help="folder for the data set (the system's)")
    parser.add_argument("--json", help="file for the raw rounds")
    parser.add_argument("--be-measured", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--position", type=float, default=0.0, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace, ranks: int, position: float) -> dict[str, float]:
    """Resume once, in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.data.resume",
        "--be-measured",
        "--ranks",
        str(ranks),
    ]
    command += ["--position", str(position), "--payload", str(args.payload)]
    command += ["--scratch", args.scratch] if args.scratch else []
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(rounds: dict[str, list[dict[str, float]]]) -> str:
    """Seconds to the first record, and what was read beside two windows of each stream."""
    rows = [["rank 0 of, epoch done", "first record, s", "MB read", "/ two windows a stream"]]
    for name, found in rounds.items():
        rows.append(
            [
                name,
                spread([one["seconds"] for one in found]).text(),
                spread([one["bytes"] / 1e6 for one in found]).text(".0f"),
                spread([one["bytes"] / one["bytes_of_two_windows"] for one in found]).text(),
            ]
        )
    return columns(rows)


def main() -> None:
    """Resume in turns, print a table, write the raw rounds."""
    args = parse()
    if args.be_measured:
        be_measured(args)
        return
    started_on = environment()
    contenders = {
        f"{ranks}, {name}": (ranks, position)
        for ranks in args.worlds
        for name, position in POSITIONS.items()
    }
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for number in range(args.rounds):
        for name, contender in contenders.items():
            rounds[name].append(measure(args, *contender))
        print(f"round {number + 1} of {args.rounds}", flush=True)
    print("\n" + table(rounds))
    print(f"the goal is a first record within {GOAL_SECONDS:g} s")
    write_json(args.json, "resume", started_on, options=vars(args), rounds=rounds)


if __name__ == "__main__":
    main()
