"""`python -m trainer`: the command line, see `trainer.cli`."""

import os
import signal
import sys

if "TRAINER_LAUNCHER_PID" in os.environ:
    # A rank that is asked to stop while it still imports has nothing to save and nothing to say.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from trainer.cli import main

if __name__ == "__main__":
    sys.exit(main())
