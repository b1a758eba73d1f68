"""A job of Spark that runs in parallel with the driver's main thread, which stays free for
signals.
"""

import secrets
import threading
from collections.abc import Callable
from typing import Any, Final, Self

_CANCEL_TIMES: Final = 50
_CANCEL_SECONDS: Final = 0.2


class Job:
    """An action in a job group of its own, which runs in a context; leaving that cancels it."""

    def __init__(self, context: Any, what: str, action: Callable[[], Any]) -> None:
        """Args:
        context: `SparkContext`.
        what: Description, for Spark's pages.
        action: Starts one job of Spark, and waits for it.
        """
        self.result: Any = None
        """The result of the action."""
        self.error: Exception | None = None
        """Why the action failed, or None."""
        self._context, self._what, self._action = context, what, action
        self._group = f"{what}-{secrets.token_hex(6)}"
        # Not the thread's own state: a signal handler that raises within join() makes Python 3.11
        # take a thread for ended that still runs.
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        from pyspark import InheritableThread

        # Job groups belong to a thread.
        thread = InheritableThread(target=self._run)
        thread.daemon = True
        try:
            thread.start()
        except BaseException:
            self.cancel()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, self._what, interruptOnCancel=True)
            self.result = self._action()
        except Exception as error:  # noqa: BLE001 - the other thread decides
            self.error = error
        finally:
            self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """End the tasks, if the job still runs."""
        for _ in range(_CANCEL_TIMES):
            if self._ended.is_set():
                return
            # Again and again, as the job may only be about to start.
            try:
                self._context.cancelJobGroup(self._group)
            except Exception:  # noqa: BLE001 - Spark has ended, perhaps by the same signal
                return
            self._ended.wait(_CANCEL_SECONDS)
