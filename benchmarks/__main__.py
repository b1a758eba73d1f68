"""`python -m benchmarks WHAT`: the benchmarks behind the numbers in the documents.

Each benchmark is a module with `Options`. One that measures has `measure`, which returns its raw
rounds, `show`, which formats them, and `goals` if it has any; the others have `run`.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.measure import publish
from common import commands
from common.arguments import parse
from common.commands import UnknownCommandError

BENCHMARKS: Final[Mapping[str, tuple[str, str]]] = {
    "loop": ("training.loop", "CPU time of a step of the loop, compared with other loops"),
    "exchange": ("training.exchange", "CPU time of a gradient exchange, compared with all-reduce"),
    "train": ("training.train", "images/s of two ranks, compared with independent trainings"),
    "checkpoint": ("training.checkpoint", "time that a training stops for a save"),
    "optimizers": ("training.optimizers", "CPU time of a step of ResNet50 with each optimizer"),
    "state-memory": ("training.state_memory", "memory of an optimizer's state, divided over ranks"),
    "batches": ("training.batches", "epochs to an accuracy on digits, by global batch"),
    "digits": ("training.digits", "accuracy and time of the first run, over several seeds"),
    "input": ("data.input", "CPU time of an image from shard to batch, and of decoding alone"),
    "memory": ("data.memory", "memory of a rank's input"),
    "mount": ("data.mount_cache", "waits for data if a mount caches files, or blocks"),
    "slow-storage": ("data.slow_storage", "images/s when every read takes longer"),
    "resume": ("data.resume", "time until a resumed run reads its first record"),
    "prepare": ("data.prepare", "CPU time of an image from file to shard, and of a plain copy"),
    "write-photos": ("data.photos", "write a folder of photographs like ImageNet's"),
    "serve": ("serving.serve", "images/s and times of requests to the scoring server"),
    "score": ("serving.score", "images/s of files of scores, and of predicting alone"),
    "engines": (
        "serving.engines",
        "CPU time of an image's classes by TensorFlow and by ONNX Runtime",
    ),
    "chaos": (
        "faults.chaos",
        "a training that is killed, stopped and frozen, compared with one that is not",
    ),
    "transfer": (
        "faults.transfer",
        "uploads and downloads that are killed half way, against the stand-in's blob server",
    ),
    "operations": ("profiles.operations", "the operations of a profiled step"),
    "timeline": ("profiles.timeline", "the phases of the exchange in a timeline"),
    "documents": ("documents", "fill the tables of the documents from benchmarks/results/"),
}
"""Module below `benchmarks`, and description, of each benchmark by name."""

FORMER: Final[Mapping[str, str]] = {"photos": "write-photos", "photographs": "input --photos"}
"""Current commands by the former names of benchmarks."""

USAGE: Final = "\n".join(
    [
        "usage: python -m benchmarks WHAT [options]",
        "",
        *(f"  {name:<13} {told}" for name, (_, told) in BENCHMARKS.items()),
        "",
        "python -m benchmarks WHAT --help lists the options.",
        "",
    ]
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a benchmark and return its exit status; print user errors without a traceback."""
    # Same as in the trainer's command line; before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        return commands.run("benchmarks", [*BENCHMARKS, *FORMER], USAGE, _run, argv)
    except commands.REPORTED as error:
        return commands.report(error)


def _run(name: str, args: Sequence[str]) -> int:
    if name in FORMER:
        raise UnknownCommandError(f"{name}: is now called {FORMER[name]}")
    module = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}")
    options = parse(module.Options(), name, args, package="benchmarks")
    if hasattr(module, "run"):
        return int(module.run(options) or 0)
    data = publish(name, options, module.measure, module.show)
    if hasattr(module, "goals"):
        print(module.goals(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
