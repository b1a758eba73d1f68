"""The steps of `fit`: commands of this program, each printed and run in a process of its own."""

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from common.errors import UserError
from common.program import installed
from trainer.data.manifest import FILE_NAME
from trainer.distributed.launcher import SignalForwarder
from trainer.errors import TIME_LIMIT_STATUS, WATCHDOG_EXIT_CODE, OutOfMemoryError

_SIGNALS: Final = 128
"""Exit statuses from this on are of steps that a signal has ended."""
_RESUMABLE: Final = frozenset({TIME_LIMIT_STATUS, WATCHDOG_EXIT_CODE, OutOfMemoryError.exit_code})
"""Other exit statuses after which the same command continues: nothing need be mended."""


class StepError(UserError):
    """A step of several has failed, after it has printed why."""


def run_step(number: int, of: int, args: Sequence[str]) -> None:
    """Print a command, and run it in a session of its own, to which stop signals are forwarded.

    Raises:
        StepError: It ended with another status than 0, which the error has.
    """
    command = shlex.join([installed("ml-trainer"), *args])
    print(f"\nstep {number} of {of}: {command}", flush=True)
    with SignalForwarder() as signals:
        process = subprocess.Popen(_program(args), start_new_session=True, text=True)
        signals.add(process)
        status = process.wait()
    if status:
        status = status if status > 0 else 128 - status
        if status < _SIGNALS and status not in _RESUMABLE:
            remedy = "mend the cause and run the same fit again"
        elif number < of:
            remedy = "to continue, run the same fit again"
        else:
            remedy = f"to continue from it, run: {command}"
        error = StepError(f"step {number} of {of} ended with status {status}; {remedy}")
        error.exit_code = status
        raise error


def answer_of(args: Sequence[str]) -> str:
    """Run a command, and return its stdout.

    Raises:
        StepError: It ended with another status than 0, which the error has.
    """
    done = subprocess.run(_program(args), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        command = shlex.join([installed("ml-trainer"), *args])
        error = StepError(f"{command} ended with status {done.returncode}")
        error.exit_code = done.returncode
        raise error
    return done.stdout


def preparation(folder: Path, data: Path, options: Mapping[str, object]) -> list[str] | None:
    """Return the command that writes the data set of a folder; None if the folder is one.

    Args:
        folder: Folder of the images.
        data: Folder of the data set to write.
        options: Options of `prepare table` if they have a table, else of `prepare folder`, by name;
            those that are None are left out.
    """
    if (folder / FILE_NAME).is_file():
        return None
    kind = "folder" if options.get("table") is None else "table"
    words = ["prepare", kind, "--input", str(folder), "--output", str(data)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def _program(args: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "trainer", *args]
