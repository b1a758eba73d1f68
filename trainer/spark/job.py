"""A job of Spark that runs beside the driver's main thread, which stays free for signals."""

import secrets
from collections.abc import Callable
from typing import Any, Self


class Job:
    """An action in a job group of its own. Leaving its context cancels it, if it still runs."""

    def __init__(self, context: Any, what: str, action: Callable[[], Any]) -> None:
        """Start it.

        Args:
            context: `SparkContext`.
            what: Description, for Spark's pages.
            action: Starts one job of Spark, and waits for it.
        """
        from pyspark import InheritableThread

        self.result: Any = None
        """What the action returned."""
        self.error: Exception | None = None
        """Why the action failed, or None."""
        self._context, self._what, self._action = context, what, action
        self._group = f"{what}-{secrets.token_hex(6)}"
        # Job groups belong to a thread.
        self._thread = InheritableThread(target=self._run)
        self._thread.daemon = True
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, self._what, interruptOnCancel=True)
            self.result = self._action()
        except Exception as error:  # noqa: BLE001 - the other thread decides
            self.error = error

    def wait(self, seconds: float) -> bool:
        """Wait for the end; return whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """End the tasks, if the job still runs."""
        if self._thread.is_alive():
            self._context.cancelJobGroup(self._group)
