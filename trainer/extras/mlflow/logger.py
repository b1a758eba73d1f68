"""Metrics for MLflow, sent by rank 0 if a tracking server is configured.

Azure Machine Learning configures its own in every job. All work happens in a thread: training
neither waits for the server nor fails because of it. Without a server nothing is started.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final, Protocol

from trainer.errors import EXIT_STATUS_TAG, RUNNING
from trainer.extras.mlflow.client import LARGEST_BATCH, MlflowClient, Point
from trainer.leaves import TASKS
from trainer.loggers.observer import Observed, Observer

CAPACITY: Final = 10_000
"""Points to buffer for a server that does not respond; further points are dropped."""

FLUSH_SECONDS: Final = 10.0
"""Longest wait for the last points at the end; a pre-empted node has 30 seconds in all."""

_SENT: Final = {
    *("loss", "training_loss", "validation_loss"),
    *("learning_rate", "images_per_second", "data_wait_percent"),
    *(metric.key for task in TASKS.values() for metric in (task.training, *task.evaluation)),
}
"""Metrics sent to MLflow; metrics.jsonl and TensorBoard have all."""


class Client(Protocol):
    """Interface to MLflow; each method may raise any exception and may block for long."""

    def describe(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """Set parameters and tags of the run."""

    def send(self, points: Sequence[Point]) -> None:
        """Add at most `LARGEST_BATCH` points."""

    def end(self, exit_status: int, *, failed: bool) -> None:
        """Tell how the attempt ended, and mark the run as ended unless its owner does."""


class MlflowLogger(Observer):
    """Sends the metrics of one attempt to MLflow; its end sends the remaining ones, and how the
    attempt ended.
    """

    def __init__(
        self, connect: Callable[[], Client] | None, flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        """Args:
        connect: Connects to the server; called in the thread. None sends nothing.
        flush_seconds: Longest wait at the end.
        """
        self._connect, self._flush_seconds = connect, flush_seconds
        self._exit_status = 0
        self._points: list[Point] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = self._failed = self._warned = False
        self._left_out = 0

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """Connect, and set parameters and tags of the run.

        Args:
            parameters: Values that are fixed; MLflow refuses to change them later.
            tags: Values that may change between attempts.
        """
        if self._connect is not None:
            # A supervisor that cannot read the log tells by the tag whether the program, and not
            # the node, has ended the attempt.
            arguments = (self._connect, parameters, {**tags, EXIT_STATUS_TAG: RUNNING})
            self._thread = threading.Thread(
                target=self._work, args=arguments, name="mlflow", daemon=True
            )
            self._thread.start()

    def add(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Report values as `event/name`; returns at once."""
        if self._thread is None:
            return
        now = time.time_ns() // 1_000_000
        points = [
            Point(f"{event}/{name}", value, now, step)
            for name, value in values.items()
            if name in _SENT and isfinite(value)
        ]
        with self._changed:
            if len(self._points) + len(points) > CAPACITY:
                self._left_out += len(points)
            else:
                self._points += points
                self._changed.notify()

    def end(self, status: int, *, failed: bool) -> None:
        """Send the remaining values, and how the attempt ended."""
        if self._thread is None:
            return
        with self._changed:
            self._exit_status, self._closing, self._failed = status, True, failed
            self._changed.notify()
        self._thread.join(self._flush_seconds)
        if self._thread.is_alive():
            self._warn(f"the last metrics could not be sent within {self._flush_seconds:g} s")
        elif self._left_out:
            self._warn(f"{self._left_out} values were not sent, because the server was too slow")

    def _work(
        self,
        connect: Callable[[], Client],
        parameters: Mapping[str, object],
        tags: Mapping[str, object],
    ) -> None:
        try:
            client = connect()
        except Exception as error:  # noqa: BLE001 training does not fail with a server of metrics
            self._warn(f"{type(error).__name__}: {error}")
            return
        self._try(client.describe, parameters, tags)
        while batch := self._take():
            self._try(client.send, batch)
        self._try(partial(client.end, self._exit_status, failed=self._failed))

    def _take(self) -> list[Point]:
        """Wait for the next points; return an empty list when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._points or self._closing)
            taken, self._points = self._points[:LARGEST_BATCH], self._points[LARGEST_BATCH:]
        return taken

    def _try(self, action: Callable[..., None], *arguments: object) -> None:
        try:
            action(*arguments)
        except Exception as error:  # noqa: BLE001 training does not fail with a server of metrics
            self._warn(f"{type(error).__name__}: {error}")

    def _warn(self, what: str) -> None:
        """Print only the first problem: an unreachable server would fill the log."""
        if not self._warned:
            self._warned = True
            print(
                f"warning: MLflow: {what}; the run continues, and metrics.jsonl has all metrics",
                file=sys.stderr,
            )


def mlflow_logger(observed: Observed) -> MlflowLogger:
    """Return the logger of a run; it sends metrics from rank 0 only, if there is a server."""
    chief, name = observed.communicator.rank == 0, observed.folder.name
    enabled = chief and "MLFLOW_TRACKING_URI" in os.environ
    return MlflowLogger((lambda: MlflowClient(name, os.environ)) if enabled else None)
