"""What slow storage costs: images a second of the input when every read takes longer.

    .venv-trainer/bin/python -m benchmarks slow-storage --json build/slow_storage.json

A library that is loaded before all others lets each read of a shard sleep first. No sleep and some
take turns, each in a process of its own that reads, decodes and crops more than an epoch. The time
until the first batch is told on its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import columns, spread, write_json
from trainer.diagnostics.environment import cores, environment

LIBRARY_CODE = Path(__file__).with_name("slow_reads.c")
GOAL = 0.9
"""Part of the speed that should be left."""


def compile_library(folder: Path) -> Path:
    """Compile the library that slows reads down."""
    library = folder / "slow_reads.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(library), str(LIBRARY_CODE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def measure(args: argparse.Namespace, library: Path, milliseconds: int) -> dict[str, float]:
    """Read some batches in a process of its own whose reads take longer."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.data.slow_storage",
        "--data",
        args.data,
        "--be-measured",
    ]
    for name in ("image_size", "batch_size", "batches", "streams", "window"):
        command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    env |= {"LD_PRELOAD": str(library), "SLOW_READ_MS": str(milliseconds)}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def be_measured(args: argparse.Namespace) -> None:
    """Read some batches and print what it took."""
    # TensorFlow is slow to import, and the process that only waits needs none.
    from trainer.config import DataConfig  # noqa: PLC0415
    from trainer.data.manifest import load_manifest  # noqa: PLC0415
    from trainer.data.pipeline import training_batches  # noqa: PLC0415
    from trainer.data.source import Source  # noqa: PLC0415

    manifest = load_manifest(Path(args.data))
    config = DataConfig(dir=args.data, streams=args.streams, shuffle_window=args.window)
    split, classes = manifest.splits["train"], len(manifest.classes)
    source = Source(Path(args.data), split, classes, args.image_size, config, 0)
    begin = time.perf_counter()
    batches = iter(training_batches(source, 0, 1, args.batch_size, 0, cores()))
    next(batches)
    first = time.perf_counter() - begin
    # What was decoded ahead while nobody asked.
    for _ in range(config.prefetch_batches + 2):
        next(batches)
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(args.batches):
        next(batches)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    images = args.batches * args.batch_size
    print(
        json.dumps(
            {
                "first_batch_seconds": first,
                "images_per_second": images / seconds,
                "cpu_ms_per_image": 1000 * cpu / images,
            }
        )
    )
    # Ending the iterator would wait for windows that nobody needs any more.
    sys.stdout.flush()
    os._exit(0)


@contextmanager
def data_set(args: argparse.Namespace, scratch: Path) -> Iterator[str]:
    """The folder that was named, or one of noise that costs what photographs do."""
    if args.data is None:
        from trainer.data.builtin.synthetic import prepare_noise  # noqa: PLC0415

        prepare_noise(str(scratch / "noise"), args.images)
    yield args.data or str(scratch / "noise")


def table(rounds: dict[int, list[dict[str, float]]]) -> str:
    """Speed, start and processor time by the time that a read takes longer."""
    rows = [["a read takes longer by", "images/s", "/ without", "first batch, s", "CPU-ms/image"]]
    for milliseconds, found in rounds.items():
        rows.append(
            [
                f"{milliseconds} ms",
                spread([one["images_per_second"] for one in found]).text(".0f"),
                spread(ratios(rounds, milliseconds)).text(),
                spread([one["first_batch_seconds"] for one in found]).text(),
                spread([one["cpu_ms_per_image"] for one in found]).text(),
            ]
        )
    return columns(rows)


def ratios(rounds: dict[int, list[dict[str, float]]], milliseconds: int) -> list[float]:
    """Speed beside that without delay, formed inside each round."""
    pairs = zip(rounds[milliseconds], rounds[0], strict=True)
    return [slow["images_per_second"] / fast["images_per_second"] for slow, fast in pairs]


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", help="folder of a data set (none: noise, for the time of this)")
    parser.add_argument("--images", type=int, default=4000, help="images of noise (4000)")
    parser.add_argument("--milliseconds", type=int, nargs="+", default=[20], help="delays (20)")
    parser.add_argument("--image-size", type=int, default=224, help="pixels (224)")
    parser.add_argument("--batch-size", type=int, default=64, help="images of a batch (64)")
    parser.add_argument("--batches", type=int, default=72, help="batches that are timed (72)")
    parser.add_argument("--streams", type=int, default=64, help="data.streams (64)")
    parser.add_argument("--window", type=int, default=512, help="data.shuffle_window (512)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (5)")
    parser.add_argument("--json", help="file for the raw rounds")
    parser.add_argument("--be-measured", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main() -> None:
    """Let the delays take turns, print a table, write the raw rounds."""
    args = parse()
    if args.be_measured:
        be_measured(args)
        return
    started_on = environment()
    with tempfile.TemporaryDirectory() as scratch, data_set(args, Path(scratch)) as args.data:
        library = compile_library(Path(scratch))
        rounds: dict[int, list[dict[str, float]]] = {ms: [] for ms in (0, *args.milliseconds)}
        for number in range(args.rounds):
            for milliseconds, found in rounds.items():
                found.append(measure(args, library, milliseconds))
            print(f"round {number + 1} of {args.rounds}", flush=True)
    print("\n" + table(rounds))
    print(f"the goal is at least {GOAL:.2f} of the speed without delay")
    write_json(args.json, "slow_storage", started_on, options=vars(args), rounds=rounds)


if __name__ == "__main__":
    main()
