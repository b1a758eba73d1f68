"""Messages between the driver and rank 0 of a run on Spark: files in the run's folder.

The folder may be on a mount that caches the attributes of a file, or cannot append to one, so no
file is ever changed or read again: each has a name of its own, and is found by listing the folder.
The names begin with a dot, as those of all temporary files in the folder.
"""

import secrets
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from common.files import write_atomically


@dataclass
class Mailbox:
    """The messages of one attempt; its copies in the driver and in task 0 are used alike."""

    folder: Path
    """Folder of the run, which driver and executors reach by the same path."""
    token: str = field(default_factory=lambda: secrets.token_hex(6))
    """Part of the names of its files, so that no other attempt reads them."""
    _seen: set[str] = field(default_factory=set)
    _sent: int = 0

    def send_stop(self, number: int) -> None:
        """Ask the ranks to stop, by a signal."""
        self._sent += 1
        (self.folder / f".stop-{self.token}-{self._sent:03d}-{int(number)}").touch()

    def new_stops(self) -> list[signal.Signals]:
        """Return the stop requests that were not returned before."""
        names = [path.name for path in self._files("stop") if path.name not in self._seen]
        self._seen.update(names)
        return [signal.Signals(int(name.rpartition("-")[2])) for name in names]

    def send_text(self, text: str) -> None:
        """Send some lines of output to the driver; they are lost if the folder fails."""
        self._sent += 1
        with suppress(OSError):
            write_atomically(self.folder / f".output-{self.token}-{self._sent:09d}", text)

    def take_texts(self) -> list[str]:
        """Return the output that has come since, in its order, and remove its files."""
        texts = []
        for path in self._files("output"):
            with suppress(OSError):
                texts.append(path.read_text(encoding="utf-8", errors="replace"))
                path.unlink()
        return texts

    def clear(self) -> None:
        """Remove all files."""
        for path in [*self._files("stop"), *self._files("output")]:
            with suppress(OSError):
                path.unlink()

    def _files(self, kind: str) -> list[Path]:
        with suppress(OSError):
            return sorted(self.folder.glob(f".{kind}-{self.token}-*"))
        return []
