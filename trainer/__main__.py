"""`python -m trainer`: the command line, see `trainer.cli`."""

import faulthandler
import os
import signal
import sys

can_dump = sys.stderr is not None
if can_dump:
    # A crash tells where, and `kill -USR2` where a process is, without ending it.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)

if "TRAINER_LAUNCHER_PID" in os.environ:
    # A rank that is asked to stop while it still imports has nothing to save and nothing to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from trainer.cli import main

END_SECONDS = 60
"""Time that Python gets to end, with all that libraries do then; a hang there is a hang as well."""

if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        if can_dump:
            faulthandler.dump_traceback_later(END_SECONDS, exit=True)
