"""How far a transfer is: a bar on a terminal, a line now and then elsewhere. On stderr."""

import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

WINDOW: Final = 20.0
"""Seconds that a rate is taken over."""


class Progress:
    """Totals of many threads.

    Args:
        verb: what is done, such as "uploading".
        files: in all.
        size: bytes in all.
        every: seconds between two lines where there is no terminal.
    """

    def __init__(self, verb: str, files: int, size: int, every: float = 10.0) -> None:
        self._verb, self._files, self._size, self._every = verb, files, size, every
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
        self._task = self._bar.add_task(verb, total=max(size, 1))

    @property
    def total_moved(self) -> int:
        """Bytes that went over the network."""
        return self._moved

    @property
    def total_files(self) -> int:
        """Files that are done."""
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

    def moved(self, size: int) -> None:
        """So many bytes went over the network."""
        self._advance(moved=size)

    def kept(self, size: int) -> None:
        """So many bytes were there already."""
        self._advance(kept=size)

    def file(self) -> None:
        """One more file is done."""
        self._advance(files=1)

    def say(self, text: str) -> None:
        """Print a line for a person."""
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
        # What is sent a second time is no progress.
        done = min(self._moved + self._kept, self._size)
        return line(self._verb, self._done_files, self._files, done, self._size, rate)


def line(verb: str, done_files: int, files: int, done: int, size: int, rate: float) -> str:
    """How far it is, in words.

    Args:
        verb: what is done.
        done_files: of all files.
        files: in all.
        done: bytes of all.
        size: bytes in all.
        rate: bytes a second.
    """
    text = f"{verb} {done_files:,} of {files:,} files, {volume(done)} of {volume(size)}"
    if rate <= 0:
        return text
    return f"{text}, {volume(rate)}/s, {span(max(size - done, 0) / rate)} left"


def volume(size: float) -> str:
    """Bytes in a unit that fits, to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "B" else f"{size:.0f} B"
        size /= 1000
    return f"{size:.3g} TB" if size < 1000 else f"{size:,.0f} TB"


def span(seconds: float) -> str:
    """Seconds in units that fit."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
