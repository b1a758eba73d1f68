"""Read the log files of a job's processes while they grow.

Azure writes one file per process to blob storage and returns URLs that expire. Reading continues
at byte offsets, so that neither a lost connection nor a new URL repeats or loses a line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jobs.azure.run_history import CHUNK
from jobs.errors import MissingError, RequestError

TAIL: Final = 256
"""Bytes before the offset that are read again, to recognize the same log by its content."""

LONGEST_LINE: Final = 1 << 16
"""Maximum bytes of an unfinished line to buffer; a longer line is returned in parts."""

_NAME: Final = re.compile(r"user_logs/std_log(?:_process_(\d+))?\.txt")

ReadLog = Callable[[str, int], bytes | None]
"""Reads a URL from a byte offset; see `jobs.azure.run_history.RunHistory.read_log`."""


@dataclass(frozen=True)
class LogLine:
    """One output line of a process."""

    rank: int
    text: str


@dataclass
class _File:
    offset: int = 0
    tail: bytes = b""
    """Content before the offset, to detect that Azure has restarted the job and its log."""
    rest: bytes = b""
    """Content after the last newline."""


@dataclass
class LogStream:
    """The logs of a job's processes, each with the position that was read to."""

    read_log: ReadLog
    ranks: Callable[[int], bool] = lambda _: True
    """Selects the ranks whose files are read."""
    refused: RequestError | None = None
    """Why the last request was refused, or None."""
    missing: RequestError | None = None
    """Why a file could not be found in the last request, or None."""
    _files: dict[str, _File] = field(default_factory=dict)

    def more(self, addresses: Mapping[str, str]) -> Iterator[LogLine]:
        """Read the lines that were written since the last call, rank by rank.

        Args:
            addresses: Current URLs of all log files by name, from the run history.
        """
        self.refused = self.missing = None
        for name, rank in process_logs(addresses, self.ranks):
            file = self._files.setdefault(name, _File())
            try:
                yield from self._read(addresses[name], file, rank)
            except MissingError as error:
                # Azure lists a file before it is written.
                self.missing = error
            except RequestError as error:
                # The URL may have expired; the next call has a new one.
                self.refused = error

    def rest(self) -> Iterator[LogLine]:
        """Return the unfinished last lines, once the job has ended."""
        for name, file in self._files.items():
            rank = rank_of(name)
            if file.rest and rank is not None:
                yield LogLine(rank, _text(file.rest))
                file.rest = b""

    def shown(self) -> dict[str, int]:
        """Return the bytes of each file that were read, by its name."""
        return {name: file.offset for name, file in self._files.items()}

    def _read(self, address: str, file: _File, rank: int) -> Iterator[LogLine]:
        while True:
            part = self.read_log(address, file.offset - len(file.tail))
            if part is None or not part.startswith(file.tail):
                file.offset, file.tail, file.rest = 0, b"", b""
                part = self.read_log(address, 0) or b""
            new = part[len(file.tail) :]
            file.offset += len(new)
            file.tail = (file.tail + new)[-TAIL:]
            *whole, file.rest = (file.rest + new).split(b"\n")
            for line in whole:
                yield LogLine(rank, _text(line))
            if len(file.rest) > LONGEST_LINE:
                yield LogLine(rank, _text(file.rest))
                file.rest = b""
            if len(part) < CHUNK:
                return


def process_logs(names: Iterable[str], ranks: Callable[[int], bool]) -> list[tuple[str, int]]:
    """Return log files with their ranks, sorted by rank. Pure."""
    known = ((name, rank_of(name)) for name in names)
    files = [(name, rank) for name, rank in known if rank is not None and ranks(rank)]
    return sorted(files, key=lambda file: (file[1], file[0]))


def rank_of(name: str) -> int | None:
    """Return the rank of a log file: 0 for that of a single process, None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1] or 0) if match else None


def last_lines(
    read_log: ReadLog, logs: Mapping[str, str], messages: Iterable[str], count: int
) -> list[str]:
    """Return the end of the log that Azure's messages name, or of the lowest rank; or why it cannot
    be read.
    """
    files = process_logs(logs, lambda _: True)
    if not files:
        return []
    texts = list(messages)
    named = [name for name, _ in files if any(name in text for text in texts)]
    name = named[0] if named else files[0][0]
    offset, end = 0, b""
    try:
        while part := read_log(logs[name], offset):
            offset += len(part)
            end = (end + part)[-LONGEST_LINE:]
    except RequestError as error:
        return [f"{name}: cannot be read from here: {error}"]
    lines = end.decode(errors="replace").splitlines()[-count:]
    return [f"last lines of {name}:", *(f"  {line}" for line in lines)]


def _text(line: bytes) -> str:
    # A progress bar overwrites itself; keep only its last state, as a terminal does.
    return line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
