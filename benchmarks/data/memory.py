"""What the input of a rank holds in memory, beside the stated bound, by the length of the data set.

    .venv-trainer/bin/python -m benchmarks memory --json build/input_memory.json

Reads a whole epoch of noise at 224 pixels, each length in a process of its own, and compares the
growth of its resident memory with `trainer.data.source.input_memory`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from benchmarks.measure import columns, spread, write_json
from trainer.config import DataConfig
from trainer.diagnostics.environment import environment

LENGTHS = (8000, 32_000)
STREAMS, WINDOW, BATCH, SIZE = 16, 32, 32, 224
GOAL = 1.1
"""What more images may cost."""
DIFFERENT = 64
"""Images that differ; the data set repeats them."""


def be_measured(examples: int) -> dict[str, float]:
    """Write a data set, read an epoch of it, and say what that held."""
    from benchmarks.data.input_contenders import PeakMemory  # noqa: PLC0415 TensorFlow, where it is measured
    from trainer.data.builtin.synthetic import noise_records  # noqa: PLC0415
    from trainer.data.pipeline import training_batches  # noqa: PLC0415
    from trainer.data.source import Source, input_memory  # noqa: PLC0415
    from trainer.data.tfrecord import write_split  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        records = list(islice(cycle(noise_records(DIFFERENT, 0)), DIFFERENT))
        split = write_split(
            Path(folder), "train", [records[n % DIFFERENT] for n in range(examples)], 8, 10
        )
        config = DataConfig(dir=folder, streams=STREAMS, shuffle_window=WINDOW)
        source = Source(Path(folder), split, 10, SIZE, config, seed=0)
        batches = iter(training_batches(source, 0, 1, BATCH, 0, threads=2))
        memory = PeakMemory()
        for _ in range(examples // BATCH):
            next(batches)
        bound = input_memory(split, config, 1, BATCH, SIZE)
        return {"mib": memory.added(), "bound_mib": bound / 2**20}


def table(rounds: dict[int, list[dict[str, float]]]) -> str:
    """Memory by length of the data set."""
    rows = [["images", "MiB held", "MiB at most, by the formula"]]
    for examples, found in rounds.items():
        held = spread([one["mib"] for one in found]).text(".0f")
        rows.append([f"{examples:,}", held, f"{found[0]['bound_mib']:.0f}"])
    few, many = (rounds[examples] for examples in sorted(rounds))
    more = spread([b["mib"] / a["mib"] for a, b in zip(few, many, strict=True)])
    times = max(rounds) // min(rounds)
    return (
        f"{columns(rows)}\n\n{times} times the images hold {more.text()} times the memory; the"
        f" goal is at most {GOAL}"
    )


def main() -> None:
    """Measure in turns, print a table, write the raw rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each length (5)")
    parser.add_argument("--json", help="file for the raw rounds")
    parser.add_argument("--be-measured", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.be_measured:
        print(json.dumps(be_measured(args.be_measured)))
        return
    started_on = environment()
    rounds: dict[int, list[dict[str, float]]] = {examples: [] for examples in LENGTHS}
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    command = [sys.executable, "-m", "benchmarks.data.memory", "--be-measured"]
    for number in range(args.rounds):
        for examples, found in rounds.items():
            done = subprocess.run(
                [*command, str(examples)], check=True, capture_output=True, text=True, env=env
            )
            found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"round {number + 1} of {args.rounds}", flush=True)
    print("\n" + table(rounds))
    write_json(args.json, "input_memory", started_on, options=vars(args), rounds=rounds)


if __name__ == "__main__":
    main()
