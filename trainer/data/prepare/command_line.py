"""`python -m trainer prepare ...`: what all preparations have in common."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import fields
from common.program import Command
from trainer.suggestion import print_suggestion
from trainer.workers import with_workers


def run_preparation(command: Command, options: Any) -> None:
    """Run a preparation, and print with which training to begin.

    Args:
        command: Its row, whose function takes the options, the command line for the manifest, and
            a function with the arguments of `trainer.data.prepare.pool.work_through`.
        options: Its options. The data set is in the folder `folder`, or else `output`, or else
            `input`.
    """
    changed, work_through = with_workers(options)
    command.load_run()(changed, recorded_line(command.name, options), work_through)
    names = ("folder", "output", "input")
    folder = next(found for name in names if (found := getattr(options, name, None)))
    print_suggestion(Path(folder))


def recorded_line(name: str, options: Any) -> str:
    """Return a preparation's command line for the manifest, which must not depend on the output
    folder or on what does the work.
    """
    default = type(options)()
    left_out = {"output", "processes", "max_rejected", "with_"} & vars(default).keys()
    shaping = replace(options, **{key: getattr(default, key) for key in left_out})
    words = fields.to_flags(shaping, default)
    return shlex.join(["python", "-m", "trainer", *name.split(), *words])
