"""`python -m benchmarks WHAT`: the benchmarks behind the numbers in the documents.

Each benchmark is a module with `Options` and `run`; a module whose raw rounds fill a table of the
documents also has `show`.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from common import fields
from common.arguments import parse
from common.errors import INTERRUPTED, ConfigError, UserError

BENCHMARKS: Final[Mapping[str, tuple[str, str]]] = {
    "loop": ("training.loop", "CPU time of a step of the loop, compared with other loops"),
    "exchange": ("training.exchange", "CPU time of a gradient exchange, compared with all-reduce"),
    "train": ("training.train", "images/s of two ranks, compared with independent trainings"),
    "checkpoint": ("training.checkpoint", "time that a training stops for a save"),
    "digits": ("training.digits", "accuracy and time of the first run, over several seeds"),
    "input": ("data.input", "CPU time of an image from shard to batch, and of decoding alone"),
    "memory": ("data.memory", "memory of a rank's input"),
    "slow-storage": ("data.slow_storage", "images/s when every read takes longer"),
    "resume": ("data.resume", "time until a resumed run reads its first record"),
    "prepare": ("data.prepare", "CPU time of an image from file to shard, and of a plain copy"),
    "write-photos": ("data.photos", "write a folder of photographs like ImageNet's"),
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

POSITIONAL: Final[Mapping[str, str]] = {
    "digits": "trainer",
    "write-photos": "folder",
    "timeline": "file",
}
"""Options given as positional arguments: before all others, or after `--`."""

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
    args = list(sys.argv[1:] if argv is None else argv)
    # Same as in the trainer's command line; before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    if args[:1] in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if args and args[0] in FORMER:
        print(f"error: {args[0]}: is now called {FORMER[args[0]]}", file=sys.stderr)
        return ConfigError.exit_code
    if not args or args[0] not in BENCHMARKS:
        wrong = f"error: unknown benchmark {args[0]!r}\n\n" if args else ""
        print(f"{wrong}{USAGE}", end="", file=sys.stderr)
        return ConfigError.exit_code
    try:
        return _run(args[0], args[1:])
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, UserError) else UserError.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(name: str, args: Sequence[str]) -> int:
    module = importlib.import_module(f"benchmarks.{BENCHMARKS[name][0]}")
    return int(module.run(read_options(name, module.Options(), args)) or 0)


def read_options(name: str, default: Any, args: Sequence[str]) -> Any:
    """Parse the options of a benchmark.

    Args:
        name: Name of the benchmark.
        default: Default options.
        args: Command line of the benchmark.

    Raises:
        ConfigError: The command line has errors; lists all of them.
    """
    named = list(takewhile(lambda arg: arg != "--", args))
    leading = list(takewhile(lambda arg: not arg.startswith("-"), named))
    positional = [*leading, *args[len(named) + 1 :]]
    options = parse(default, name, named[len(leading) :], package="benchmarks")
    field = POSITIONAL.get(name)
    if not positional:
        return options
    if field is None:
        raise ConfigError([f"{positional[0]}: unexpected argument"])
    if isinstance(fields.get(default, field), tuple):
        return replace(options, **{field: tuple(positional)})
    if len(positional) > 1:
        raise ConfigError([f"{positional[1]}: unexpected argument"])
    return replace(options, **{field: positional[0]})


if __name__ == "__main__":
    sys.exit(main())
