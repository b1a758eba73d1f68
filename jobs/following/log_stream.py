"""Log files of a job's processes, read on while they grow.

Azure writes a file a process to blob storage, and gives an address that may be read for a while.
Reading goes on by byte offsets, so that neither a cut connection nor a new address repeats or
loses a line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jobs.azure.run_history import CHUNK
from jobs.errors import MissingError, RequestError

TAIL: Final = 256
"""Bytes before the offset that are read again: the figures in a log's lines make them its own."""

LONGEST_LINE: Final = 1 << 16
"""Bytes of an unfinished line that are waited for; a longer one is given in parts."""

_NAME: Final = re.compile(r"user_logs/std_log(?:_process_(\d+))?\.txt")

ReadLog = Callable[[str, int], bytes | None]
"""Bytes of an address from an offset on; see `jobs.azure.run_history.RunHistory.read_log`."""


@dataclass(frozen=True)
class LogLine:
    """One line of a process."""

    rank: int
    text: str


@dataclass
class _File:
    offset: int = 0
    tail: bytes = b""
    """What stands before the offset, to notice when Azure has begun the job and its log anew."""
    rest: bytes = b""
    """What has no end of a line yet."""


@dataclass
class LogStream:
    """How far the log of each process has been read."""

    read_log: ReadLog
    ranks: Callable[[int], bool] = lambda _: True
    """Whose files are read."""
    refused: str | None = None
    """Why the last reading gave nothing, if it was refused."""
    _files: dict[str, _File] = field(default_factory=dict)

    def more(self, addresses: Mapping[str, str]) -> Iterator[LogLine]:
        """Lines that have come since the last call, rank by rank.

        Args:
            addresses: of all log files by their names, as the run history gives them now.
        """
        self.refused = None
        for name, rank in process_logs(addresses, self.ranks):
            file = self._files.setdefault(name, _File())
            try:
                yield from self._read(addresses[name], file, rank)
            except MissingError:
                # It is listed before it is written.
                continue
            except RequestError as error:
                # An address that is too old is refused as well; the next call has a new one.
                self.refused = str(error)

    def rest(self) -> Iterator[LogLine]:
        """What stands after the last end of a line, when no more will come."""
        for name, file in self._files.items():
            rank = rank_of(name)
            if file.rest and rank is not None:
                yield LogLine(rank, _text(file.rest))
                file.rest = b""

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
    """Log files of processes with their ranks, in order of these. Pure.

    Args:
        names: of files.
        ranks: whose files are asked for.
    """
    known = ((name, rank_of(name)) for name in names)
    files = [(name, rank) for name, rank in known if rank is not None and ranks(rank)]
    return sorted(files, key=lambda file: (file[1], file[0]))


def rank_of(name: str) -> int | None:
    """Whose log a file is; 0 for that of the only process, None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1] or 0) if match else None


def last_lines(
    read_log: ReadLog, logs: Mapping[str, str], messages: Iterable[str], count: int
) -> list[str]:
    """The end of the log that Azure's messages name, or of the lowest rank; else why it cannot be
    read.

    Args:
        read_log: reads them.
        logs: addresses of all log files by their names.
        messages: of Azure.
        count: of lines.
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
    return [f"the last lines of {name}:", *(f"  {line}" for line in lines)]


def _text(line: bytes) -> str:
    # A progress bar writes over itself; its last state is what a person would see.
    return line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
