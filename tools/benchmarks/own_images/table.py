"""Balanced accuracy of `ml-trainer fit` and of other ways on six sets of images, over seeds.

A set is drawn anew for each seed. Every way learns from the same training folder, and is measured
on the same test images, which no way has seen, by the mean of the recalls of all classes. `fit`
holds out a tenth of the training folder for its own report.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from common.errors import ConfigError
from common.files import write_atomically
from tools.benchmarks.measure import BenchmarkOptions, columns, spread, to_json
from tools.benchmarks.own_images.others import OTHERS, Array, read
from tools.benchmarks.own_images.sets import SETS
from trainer.diagnostics.environment import environment

FIT: Final = "fit"
WAYS: Final = (*OTHERS, FIT)
WORDS: Final = {
    "trees": "ExtraTrees on pixels",
    "components": "logistic regression on PCA",
    "keras": "Keras, three convolutions",
    FIT: "`ml-trainer fit`",
}
MARGIN: Final = 0.02
"""How far below the best of the other ways `fit` may be, in balanced accuracy."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """Balanced accuracy of `ml-trainer fit` and of other ways on six sets of images. With --json,
    each row is saved as soon as it is there, and the same command continues.
    """

    sets: tuple[str, ...] = ()
    """Sets to measure; all without a name."""

    ways: tuple[str, ...] = ()
    """Ways to measure: trees, components, keras, fit; all without a name."""

    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds, each of a set and of the ways."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the rows that are not there yet."""
    sets, ways = options.sets or tuple(SETS), options.ways or WAYS
    problems = [
        f"--sets: {name!r} is not one of {', '.join(SETS)}" for name in sets if name not in SETS
    ]
    problems += [
        f"--ways: {name!r} is not one of {', '.join(WAYS)}" for name in ways if name not in WAYS
    ]
    if problems:
        raise ConfigError(problems)
    rows = _saved(options)
    for seed in options.seeds:
        for name in sets:
            measured = {row["way"] for row in rows if (row["set"], row["seed"]) == (name, seed)}
            missing = [way for way in ways if way not in measured]
            if not missing:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / name
                SETS[name].write(folder, seed)
                for way in missing:
                    rows.append({"set": name, "seed": seed, "way": way, **_row(folder, way, seed)})
                    print(line(rows[-1]), flush=True)
                    _save(options, rows)
    return {"rows": rows}


def show(data: Mapping[str, Any]) -> str:
    """Format a line for each set: the median over seeds with its range, in %."""
    rows, table = data["rows"], [["set", "images", "classes", *WORDS.values(), "to the best other"]]
    for name, image_set in SETS.items():
        results = {way: _of(rows, name, way) for way in WAYS}
        if not all(results.values()):
            continue
        best = max(float(np.median(list(results[way].values()))) for way in OTHERS)
        ours = float(np.median(list(results[FIT].values())))
        table.append(
            [
                image_set.words,
                f"{image_set.images:,}",
                f"{len(image_set.classes)}",
                *(_percent(list(results[way].values())) for way in WAYS),
                f"{100 * (ours - best):+.1f}",
            ]
        )
    return columns(table)


def goals(data: Mapping[str, Any]) -> str:
    """Return which sets keep the margin, and which rows of `fit` predict no image as some class."""
    lines = []
    for name in SETS:
        results = {way: _of(data["rows"], name, way) for way in WAYS}
        if not all(results.values()):
            lines.append(f"{name}: not measured with every way")
            continue
        best = max(float(np.median(list(results[way].values()))) for way in OTHERS)
        short = best - float(np.median(list(results[FIT].values())))
        verdict = "missed" if round(short, 6) > MARGIN else "kept"
        lines.append(f"{name}: {verdict} ({-100 * short:+.1f} points)")
    lines += [
        f"{row['set']}, seed {row['seed']}: fit never predicts {', '.join(row['never'])}"
        for row in data["rows"]
        if row["way"] == FIT and row["never"]
    ]
    return "\n".join(lines)


def line(row: Mapping[str, Any]) -> str:
    """Format one row."""
    recalls = ", ".join(f"{recall:.0%}" for recall in row["recalls"])
    return (
        f"{row['set']} {row['way']} seed {row['seed']}: {row['balanced_accuracy']:.1%}"
        f" ({recalls}) in {row['seconds']:.0f} s"
    )


def _of(rows: Sequence[Mapping[str, Any]], name: str, way: str) -> dict[int, float]:
    """Return the balanced accuracies of a way on a set, by seed."""
    return {
        row["seed"]: row["balanced_accuracy"]
        for row in rows
        if (row["set"], row["way"]) == (name, way)
    }


def _percent(values: Sequence[float]) -> str:
    summary = spread(values)
    if len(values) == 1:
        return f"{summary.median:.1%}"
    return f"{summary.median:.1%} ({summary.low:.1%} to {summary.high:.1%})"


def _row(folder: Path, way: str, seed: int) -> dict[str, Any]:
    begun = time.perf_counter()
    test, labels, files = read(folder / "test")
    classes = sorted({file.parent.name for file in files})
    if way == FIT:
        predicted = np.array([classes.index(name) for name in fitted(folder, files, seed)])
    else:
        train, known, _ = read(folder / "train")
        predicted = OTHERS[way](train, known, test, seed)
    return {
        **scores(labels, predicted, classes),
        "seconds": time.perf_counter() - begun,
        "load_average": os.getloadavg()[0],
    }


def scores(labels: Array, predicted: Array, classes: Sequence[str]) -> dict[str, Any]:
    """Return the recalls, their mean, and the classes that are never predicted.

    Args:
        labels: True classes, int [n].
        predicted: Predicted classes, int [n].
        classes: Names of the classes.
    """
    recalls = [float(np.mean(predicted[labels == label] == label)) for label in range(len(classes))]
    return {
        "balanced_accuracy": float(np.mean(recalls)),
        "recalls": recalls,
        "never": [name for label, name in enumerate(classes) if not np.any(predicted == label)],
    }


def fitted(folder: Path, files: Sequence[Path], seed: int) -> list[str]:
    """Return the classes that a run of `fit` on FOLDER/train predicts, the first one of the data
    set for an image that cannot be read.
    """
    runs = folder / "runs"
    words = ["fit", str(folder / "train"), "--data", str(folder / "data"), "--runs-dir", str(runs)]
    words += ["--name", "fit", "--", "--seed", str(seed), "--log.images", "none"]
    command = [sys.executable, "-m", "trainer", *words]
    print("$", " ".join(command[1:]), flush=True)
    with (folder / "fit.log").open("w") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError((folder / "fit.log").read_text()[-4000:])
    # In a process of its own, whose TensorFlow ends with it.
    code = (
        "import json, sys, trainer;"
        "found = trainer.load(sys.argv[1]).predict(json.load(sys.stdin));"
        "print('\\n' + json.dumps([one.class_name for one in found]))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(runs / "fit")],
        input=json.dumps([str(file) for file in files]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    names: list[str] = json.loads(answer.stdout.splitlines()[-1])
    return names


def _saved(options: Options) -> list[dict[str, Any]]:
    if options.json is None or not Path(options.json).exists():
        return []
    rows: list[dict[str, Any]] = json.loads(Path(options.json).read_text())["rows"]
    return rows


def _save(options: Options, rows: Sequence[Mapping[str, Any]]) -> None:
    if options.json is not None:
        facts = {"benchmark": "own-images", "environment": environment(), "rows": rows}
        text = to_json({**facts, "load_average_after": os.getloadavg(), "options": options})
        write_atomically(Path(options.json), text + "\n")
