"""A rank that takes some seconds to save its state when asked to stop."""

import os
import signal
import sys
import time
from pathlib import Path

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

if __name__ == "__main__":
    seconds, folder = float(sys.argv[1]), Path(sys.argv[2])
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    print("ready", flush=True)
    asked = signal.sigwait(SIGNALS)
    time.sleep(seconds)
    folder.mkdir(exist_ok=True)
    (folder / os.environ["OMPI_COMM_WORLD_RANK"]).touch()
    sys.exit(128 + asked)
