"""Progress of a transfer on stderr: a bar on a terminal, otherwise a line every few seconds."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from rich import progress
from rich.console import Console

from common.text import duration, plural, size

WINDOW: Final = 20.0
"""Seconds over which the rate is averaged."""


class Progress:
    """Progress of a transfer by many threads.

    Args:
        activity: Its name, such as "uploading".
        files: Number of all files.
        total: Bytes of all files.
        every: Seconds between two lines if stderr is not a terminal.
    """

    def __init__(self, activity: str, files: int, total: int, every: float = 10.0) -> None:
        self._files, self._every = files, every
        self._lock = threading.Lock()
        self._printed = time.monotonic()
        self._bar = progress.Progress(
            progress.TextColumn(
                "{task.description} {task.fields[files]} of " + plural(files, "file")
            ),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            disable=not sys.stderr.isatty(),
            speed_estimate_period=WINDOW,
        )
        self._bar.add_task(activity, total=total, files="0")
        self._task = self._bar.tasks[0]
        self.total_moved = 0
        """Bytes transferred over the network."""
        self.total_files = 0
        """Number of completed files."""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def moved(self, count: int) -> None:
        """Count bytes transferred over the network."""
        with self._counting():
            self.total_moved += count
            # Bytes that are transferred twice do not count as progress.
            self._bar.advance(self._task.id, min(count, self._task.remaining or 0))

    def skipped(self, count: int) -> None:
        """Count bytes that need no transfer, as they already exist at the target."""
        with self._counting():
            # `advance` would count them for the speed.
            self._task.completed += min(count, self._task.remaining or 0)

    def file(self) -> None:
        """Count a completed file."""
        with self._counting():
            self.total_files += 1
            self._bar.update(self._task.id, files=f"{self.total_files:,}")

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Change the counts, and print a line if there is no bar and it is time for one."""
        with self._lock:
            yield
            now, task = time.monotonic(), self._task
            if self._bar.disable and now - self._printed >= self._every:
                self._printed = now
                done, total = int(task.completed), int(task.total or 0)
                text = line(
                    task.description, self.total_files, self._files, done, total, task.speed or 0.0
                )
                print(text, file=sys.stderr, flush=True)


def line(activity: str, done_files: int, files: int, done: int, total: int, rate: float) -> str:
    """Format the progress as a line."""
    text = f"{activity} {done_files:,} of {plural(files, 'file')}, {size(done)} of {size(total)}"
    if rate <= 0:
        return text
    return f"{text}, {size(rate)}/s, {duration((total - done) / rate)} left"
