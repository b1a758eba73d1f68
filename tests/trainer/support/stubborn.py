"""A rank that is asked to stop and does not: `python -m tests.trainer.support.stubborn`."""

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, lambda *_: print("asked to stop", flush=True))
    print("ready", flush=True)
    while True:
        signal.pause()
