"""The lines that the C++ code of TensorFlow writes to stderr, which go to a file of the run."""

import re
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE: Final = "tensorflow.log"
"""File of a run."""
KEPT_LINES: Final = 50
"""Most lines of a rank that are printed if it fails."""

_NATIVE: Final = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\) is called"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] \S+\.(?:cc|h|cu):\d+\]"
    r"|[IWE]\d{4} \d\d:\d\d:[\d:.]+ +\d+ \S+\.(?:cc|h|cu):\d+\]"
)
"""Start of a line of TensorFlow's or Abseil's log; a fatal one (F) does not count."""


def is_native(line: str) -> bool:
    """Return whether C++ code has logged a line, less than a fatal error."""
    return _NATIVE.match(line) is not None


class NativeLog:
    """The lines of one rank. They wait for the config.json of the run, which follows the first
    step: no run may begin in a folder that has other files without it.
    """

    def __init__(self, folder: Path | None, rank: int) -> None:
        """Args:
        folder: Folder of the run; None writes no file.
        rank: Number of the rank.
        """
        self._folder, self._rank = folder, rank
        self._waiting: deque[str] = deque(maxlen=10 * KEPT_LINES)
        self.last: deque[str] = deque(maxlen=KEPT_LINES)
        """The last lines, to print if the rank fails."""

    def add(self, line: str) -> None:
        """Keep a line, and write all that wait if the run has begun."""
        self.last.append(line)
        self._waiting.append(line)
        self.write()

    def write(self) -> None:
        """Write the lines that wait. A full disk must not end the run."""
        if self._folder is None or not self._waiting:
            return
        if not (self._folder / "config.json").exists():
            return
        text = "".join(f"[rank {self._rank}] {line}" for line in self._waiting)
        with suppress(OSError), (self._folder / FILE).open("a", encoding="utf-8") as file:
            file.write(text)
        self._waiting.clear()
