"""`python -m benchmarks WHAT`: what makes the numbers in the documents."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TypeVar

from benchmarks import command, options
from common.arguments import parse
from common.errors import ConfigError, UserError

T = TypeVar("T")

USAGE = """\
usage: python -m benchmarks WHAT [options]

  loop          CPU time of a step of the loop, beside other loops
  exchange      one exchange of ResNet50's gradients, beside a bare all-reduce
  train         images/s of two ranks, beside two independent trainings
  checkpoint    how long a training stands still to save
  input         an image from shard to batch, beside decoding alone

  digits        accuracy and time of the first run, over several seeds
  photos        write a folder of photographs to measure with
  photographs   `input` on photographs as large as ImageNet's
  prepare       an image from file to shard, beside a copy of the bytes
  memory        what the input of a rank holds in memory
  slow-storage  images/s where every read takes longer
  resume        how soon a run that continues reads its first record
  chaos         a training that is killed, stopped and frozen, beside one that is not
  operations    the operations of a profiled step
  timeline      the phases of the exchange in a timeline
  documents     fill the tables of the documents from benchmarks/results/

python -m benchmarks WHAT --help lists the options.
"""

_SCRIPTS = {
    "digits": "benchmarks.training.digits",
    "photos": "benchmarks.data.photos",
    "photographs": "benchmarks.data.input",
    "prepare": "benchmarks.data.prepare",
    "memory": "benchmarks.data.memory",
    "slow-storage": "benchmarks.data.slow_storage",
    "resume": "benchmarks.data.resume",
    "chaos": "benchmarks.faults.chaos",
    "operations": "benchmarks.profiles.operations",
    "timeline": "benchmarks.profiles.timeline",
    "documents": "benchmarks.documents",
}
"""Modules whose `main` reads the command line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a benchmark and return its exit status; errors of the user's come without a traceback."""
    args = list(sys.argv[1:] if argv is None else argv)
    # As the trainer's own command line does, before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    try:
        return _run(args)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, UserError) else UserError.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _run(args: list[str]) -> int:
    match args:
        case ["loop", *rest]:
            command.loop(_parse(options.LoopBenchmark(), args), rest)
        case ["exchange", *rest]:
            command.exchange(_parse(options.ExchangeBenchmark(), args), rest)
        case ["train", *_]:
            command.train(_parse(options.TrainBenchmark(), args))
        case ["input", *_]:
            command.input_(_parse(options.InputBenchmark(), args))
        case ["checkpoint", *_]:
            command.checkpoint(_parse(options.CheckpointBenchmark(), args))
        case [name, *rest] if name in _SCRIPTS:
            module = importlib.import_module(_SCRIPTS[name])
            sys.argv = [f"python -m benchmarks {name}", *rest]
            return int(module.main() or 0)
        case ["-h" | "--help"]:
            print(USAGE, end="")
        case _:
            wrong = f"error: {args[0]!r} is not a benchmark\n\n" if args else ""
            print(f"{wrong}{USAGE}", end="", file=sys.stderr)
            return ConfigError.exit_code
    return 0


def _parse(default: T, args: Sequence[str]) -> T:
    return parse(default, args[0], args[1:], package="benchmarks")


if __name__ == "__main__":
    sys.exit(main())
