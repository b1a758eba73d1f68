"""`python -m tools.benchmarks WHAT`: the benchmarks behind the numbers in the documents."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from common.arguments import parse
from common.program import Command, Program
from tools.benchmarks.commands import BENCHMARKS, GONE
from tools.benchmarks.measure import publish

PROGRAM: Final = Program(
    "tools.benchmarks",
    BENCHMARKS,
    tuple(dict.fromkeys(row.group for row in BENCHMARKS)),
    "WHAT [options]",
    "python -m tools.benchmarks WHAT --help lists the options; --json FILE saves every round.",
    gone=GONE,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a benchmark and return its exit status; print user errors without a traceback."""
    # Same as in the trainer's command line; before TensorFlow is imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    return PROGRAM.main(argv, _run)


def _run(row: Command, args: list[str]) -> int:
    module = importlib.import_module(row.run.partition(":")[0])
    options = parse(row.load_options()(), row.name, args, program="python -m tools.benchmarks")
    if hasattr(module, "run"):
        return int(module.run(options) or 0)
    data = publish(row.name, options, module.measure, module.show)
    if hasattr(module, "goals"):
        print(module.goals(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
