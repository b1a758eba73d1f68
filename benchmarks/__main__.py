"""`python -m benchmarks WHAT`: what makes the numbers in the documents.

Each benchmark is a module with its `Options` and `run`; one whose raw rounds fill a table of the
documents has a `show`, too.
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
    "loop": ("training.loop", "CPU time of a step of the loop, beside other loops"),
    "exchange": ("training.exchange", "an exchange of ResNet50's gradients, beside an all-reduce"),
    "train": ("training.train", "images/s of two ranks, beside two independent trainings"),
    "checkpoint": ("training.checkpoint", "how long a training stands still to save"),
    "digits": ("training.digits", "accuracy and time of the first run, over several seeds"),
    "input": ("data.input", "an image from shard to batch, beside decoding alone"),
    "memory": ("data.memory", "what the input of a rank holds in memory"),
    "slow-storage": ("data.slow_storage", "images/s where every read takes longer"),
    "resume": ("data.resume", "how soon a run that continues reads its first record"),
    "prepare": ("data.prepare", "an image from file to shard, beside a copy of the bytes"),
    "write-photos": ("data.photos", "write a folder of photographs like ImageNet's"),
    "chaos": (
        "faults.chaos",
        "a training that is killed, stopped and frozen, beside one that is not",
    ),
    "operations": ("profiles.operations", "the operations of a profiled step"),
    "timeline": ("profiles.timeline", "the phases of the exchange in a timeline"),
    "documents": ("documents", "fill the tables of the documents from benchmarks/results/"),
}
"""By name, the module below `benchmarks` and what it tells."""

POSITIONAL: Final[Mapping[str, str]] = {
    "digits": "trainer",
    "write-photos": "folder",
    "timeline": "file",
}
"""Options that are given without their names: before all others, or after `--`."""

FORMER: Final[Mapping[str, str]] = {"photos": "write-photos", "photographs": "input --photos"}
"""What is given today in place of names that benchmarks had before."""

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
    """Run a benchmark and return its exit status; errors of the user's come without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # As the trainer's own command line does, before TensorFlow is imported.
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
    """The options of a benchmark.

    Args:
        name: of the benchmark.
        default: its options where nothing is given.
        args: its command line.

    Raises:
        ConfigError: with everything that is wrong.
    """
    named = list(takewhile(lambda arg: arg != "--", args))
    leading = list(takewhile(lambda arg: not arg.startswith("-"), named))
    positional = [*leading, *args[len(named) + 1 :]]
    options = parse(default, name, named[len(leading) :], package="benchmarks")
    field = POSITIONAL.get(name)
    if not positional:
        return options
    if field is None:
        raise ConfigError([f"{positional[0]}: there is no place for this argument"])
    if isinstance(fields.get(default, field), tuple):
        return replace(options, **{field: tuple(positional)})
    if len(positional) > 1:
        raise ConfigError([f"{positional[1]}: there is no place for this argument"])
    return replace(options, **{field: positional[0]})


if __name__ == "__main__":
    sys.exit(main())
