"""`python -m trainer`: the command line, see `trainer.cli`."""

import atexit
import faulthandler
import os
import signal
import sys

status: int | None = None
"""Exit status of the command, once it has ended."""


def leave() -> None:
    """Exit the process immediately, after Python's own cleanup.

    TensorFlow's threads occasionally deadlock while the interpreter shuts down; a command that has
    already printed its result must not hang or fail because of that.
    """
    if status is None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        # The reader of the output is gone; Python reports that itself.
        return
    os._exit(status)


# Handlers run in reverse order: this one after those that libraries register when imported.
atexit.register(leave)

can_dump = sys.stderr is not None
if can_dump:
    # Print all stacks on a crash, and on `kill -USR2` without ending the process.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)

# A command that is asked to stop during its imports has nothing to save and nothing to report.
interrupt = signal.signal(signal.SIGINT, signal.SIG_DFL)

from trainer.distributed import signals

if signals.started_by_mpirun(os.environ):
    signals.hold_sigcont()

from trainer.cli import main

END_SECONDS = 60
"""Seconds that libraries may take to shut down; after that the process counts as hung."""


def run() -> None:
    """Run a command and exit with its status."""
    global status  # noqa: PLW0603 read at the exit of the process
    if "TRAINER_LAUNCHER_PID" not in os.environ:
        # The imports of a rank have only begun.
        signal.signal(signal.SIGINT, interrupt)
    try:
        status = main()
        sys.exit(status)
    finally:
        if can_dump:
            faulthandler.dump_traceback_later(END_SECONDS, exit=True)


if __name__ == "__main__":
    run()
