"""The first run's promise: held-out accuracy and time of the digits preset over several seeds.

    .venv-trainer/bin/python -m benchmarks digits --json build/digits.json

Trains the preset as `make train` does, once a seed, and reports the final weights on the 360
held-out images. `--tune` instead holds out 360 of the training images, so that hyper-parameters can
be compared without a look at the held-out ones; options after `--` go to the trainer.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from trainer.diagnostics.environment import environment


def main() -> None:
    """Train, print a table, write the raw results."""
    layout = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("options", nargs="*", help="options of `trainer train`, after --")
    args = parser.parse_args()
    started_on = environment()
    with tempfile.TemporaryDirectory() as scratch:
        options = list(args.options)
        if args.tune:
            options += ["--data.dir", str(write_tuning_data(Path(scratch) / "data"))]
        rounds = [train(seed, options, Path(scratch) / "runs") for seed in args.seeds]
    print(f"{'seed':>4}  {'held-out top-1':>14}  {'seconds':>7}  {'images/s':>8}")
    for seed, result in zip(args.seeds, rounds, strict=True):
        print(
            f"{seed:>4}  {result['top1']:>14.2%}  {result['training_seconds']:>7.1f}"
            f"  {result['images_per_second']:>8.1f}"
        )
    accuracies = sorted(result["top1"] for result in rounds)
    seconds = sorted(result["training_seconds"] for result in rounds)
    print(
        f"median {statistics.median(accuracies):.2%} ({accuracies[0]:.2%} to {accuracies[-1]:.2%})"
        f" in {statistics.median(seconds):.1f} s ({seconds[0]:.1f} to {seconds[-1]:.1f})"
    )
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        data = {
            "environment": started_on,
            "options": options,
            "seeds": args.seeds,
            "rounds": rounds,
        }
        args.json.write_text(json.dumps(data, indent=1) + "\n")


def train(seed: int, options: list[str], runs: Path) -> dict[str, Any]:
    """Train one seed and return its result.json."""
    name = f"seed-{seed}"
    command = [sys.executable, "-m", "trainer", "train", "--seed", str(seed), "--name", name]
    # A figure is of one attempt.
    command += ["--runs-dir", str(runs), "--restarts", "0", *options]
    print("$", " ".join(command[1:]), flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    result: dict[str, Any] = json.loads((runs / name / "result.json").read_text())
    return result


def write_tuning_data(folder: Path) -> Path:
    """Split the training part of the digits once more, and never touch the held-out part."""
    from trainer.data.builtin import dataset, digits  # noqa: PLC0415 TensorFlow is slow to import

    known, _ = digits.split(digits.load_records(), digits.VALIDATION_PER_CLASS, "digits")
    train_part, tune_part = digits.split(known, digits.VALIDATION_PER_CLASS, "tune")
    normalization = digits.normalization(train_part)
    command = "benchmarks/training/digits.py --tune"
    dataset.write_dataset(folder, train_part, tune_part, digits.CLASSES, normalization, command)
    return folder


if __name__ == "__main__":
    main()
