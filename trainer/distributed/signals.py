"""How a person or a machine asks a run to stop."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from trainer.errors import STOP_SIGNALS


class StopRequest:
    """The first of the signals asks to stop after the running step, a second SIGINT ends the
    process at once.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal that came first."""
        self._tell: Callable[[], None] | None = None

    def install(self) -> None:
        """Handle the signals from now on; only the main thread may call it."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._handle)

    def attach(self, tell: Callable[[], None]) -> None:
        """Name what is called in a signal handler; at once, if the signal has come before."""
        self._tell = tell
        if self.signal is not None:
            tell()

    def detach(self) -> None:
        """Call nothing any more, and keep nothing alive."""
        self._tell = None

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None:
            if number == signal.SIGINT:
                os._exit(128 + number)
            return
        self.signal = number
        if self._tell is not None:
            self._tell()
        # The terminal may be what has gone, and a handler may interrupt a print.
        with suppress(OSError, RuntimeError):
            print("stopping after this step; Ctrl-C again to leave at once", file=sys.stderr)
