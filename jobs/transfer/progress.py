"""Progress of a transfer on stderr: a bar on a terminal, otherwise a line every few seconds."""

import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from common.text import duration, size

WINDOW: Final = 20.0
"""Seconds over which the rate is averaged."""


class Progress:
    """Progress of a transfer by many threads.

    Args:
        activity: What is done, such as "uploading".
        files: Number of all files.
        total: Bytes of all files.
        every: Seconds between two lines if stderr is not a terminal.
    """

    def __init__(self, activity: str, files: int, total: int, every: float = 10.0) -> None:
        self._activity, self._files, self._total, self._every = activity, files, total, every
        self._lock = threading.Lock()
        self._done_files = 0
        self._moved = 0
        self._kept = 0
        self._recent = deque([(time.monotonic(), 0)])
        self._told = time.monotonic()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._terminal = sys.stderr.isatty()
        self._bar = Bar(
            BarColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._bar.add_task(activity, total=max(total, 1))

    @property
    def total_moved(self) -> int:
        """Bytes transferred over the network."""
        return self._moved

    @property
    def total_files(self) -> int:
        """Number of completed files."""
        return self._done_files

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def moved(self, count: int) -> None:
        """Count bytes transferred over the network."""
        self._advance(moved=count)

    def kept(self, count: int) -> None:
        """Count bytes that need no transfer, as they already exist at the target."""
        self._advance(kept=count)

    def file(self) -> None:
        """Count a completed file."""
        self._advance(files=1)

    def say(self, text: str) -> None:
        """Print a line to stderr."""
        self._console.print(text, markup=False)

    def _advance(self, *, moved: int = 0, kept: int = 0, files: int = 0) -> None:
        with self._lock:
            self._moved += moved
            self._kept += kept
            self._done_files += files
            now = time.monotonic()
            self._recent.append((now, self._moved))
            while len(self._recent) > 2 and now - self._recent[0][0] > WINDOW:
                self._recent.popleft()
            if not self._terminal and now - self._told < self._every:
                return
            self._told = now
            text, done = self._text(), self._moved + self._kept
        if self._terminal:
            self._bar.update(self._task, completed=done, description=text)
        else:
            self.say(text)

    def _text(self) -> str:
        (since, before), (now, moved) = self._recent[0], self._recent[-1]
        rate = (moved - before) / (now - since) if now > since else 0.0
        # Bytes that are transferred twice do not count as progress.
        done = min(self._moved + self._kept, self._total)
        return line(self._activity, self._done_files, self._files, done, self._total, rate)


def line(activity: str, done_files: int, files: int, done: int, total: int, rate: float) -> str:
    """Format the progress as a line.

    Args:
        activity: What is done.
        done_files: Number of completed files.
        files: Number of all files.
        done: Completed bytes.
        total: Bytes of all files.
        rate: Bytes per second.
    """
    text = f"{activity} {done_files:,} of {files:,} files, {size(done)} of {size(total)}"
    if rate <= 0:
        return text
    return f"{text}, {size(rate)}/s, {duration(max(total - done, 0) / rate)} left"
