"""`python -m trainer`: the command line, see `trainer.cli`."""

import atexit
import faulthandler
import os
import signal
import sys

status: int | None = None
"""Exit status of the command, once it has ended."""


def leave() -> None:
    """End here, once everything that Python ends itself has ended.

    TensorFlow's own threads now and then wait for one another for ever while the interpreter is
    taken apart, and a command that has told its result must not fail by that.
    """
    if status is None:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        # Who listened is gone; Python says so in its own way.
        return
    os._exit(status)


# What is registered first is called last, after what libraries register when they are imported.
atexit.register(leave)

can_dump = sys.stderr is not None
if can_dump:
    # A crash tells where, and `kill -USR2` where a process is, without ending it.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)

if "TRAINER_LAUNCHER_PID" in os.environ:
    # A rank that is asked to stop while it still imports has nothing to save and nothing to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from trainer.distributed import signals

if signals.started_by_mpirun(os.environ):
    signals.hold_sigcont()

from trainer.cli import main

END_SECONDS = 60
"""Time that libraries get to end what they have begun; a hang there is a hang as well."""

if __name__ == "__main__":
    try:
        status = main()
        sys.exit(status)
    finally:
        if can_dump:
            faulthandler.dump_traceback_later(END_SECONDS, exit=True)
