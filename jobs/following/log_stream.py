"""Log files of a job's processes, read on while they grow.

Azure writes a file a process to blob storage, and gives an address that may be read for a while.
Reading goes on by byte offsets, so that neither a cut connection nor a new address repeats or
loses a line.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from azure.core.exceptions import HttpResponseError
from azure.core.rest import HttpRequest

from jobs.azure.workspace import Workspace
from jobs.errors import MissingError, RequestError

CHUNK: Final = 4 << 20
"""Bytes asked for at once."""

TAIL: Final = 256
"""Bytes before the offset that are read again: the figures in a log's lines make them its own."""

LONGEST: Final = 1 << 16
"""Bytes of an unfinished line that are waited for; a longer one is given in parts."""

_NAME: Final = re.compile(r"user_logs/std_log(?:_process_(\d+))?\.txt")

Fetch = Callable[[str, int], bytes | None]
"""Bytes from an offset on; none if the file is shorter than that, so has been begun anew."""


@dataclass(frozen=True)
class Line:
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
class Logs:
    """How far the log of each process has been read."""

    fetch: Fetch
    ranks: Callable[[int], bool] = lambda _: True
    """Whose files are read."""
    refused: str | None = None
    """Why the last reading gave nothing, if it was refused."""
    _files: dict[str, _File] = field(default_factory=dict)

    def more(self, addresses: Mapping[str, str]) -> Iterator[Line]:
        """Lines that have come since the last call, rank by rank.

        Args:
            addresses: of all log files by their names, as the run history gives them now.
        """
        self.refused = None
        for name, rank in wanted(addresses, self.ranks):
            file = self._files.setdefault(name, _File())
            try:
                yield from self._read(addresses[name], file, rank)
            except MissingError:
                # It is listed before it is written.
                continue
            except RequestError as error:
                # An address that is too old is refused as well; the next call has a new one.
                self.refused = str(error)

    def rest(self) -> Iterator[Line]:
        """What stands after the last end of a line, when no more will come."""
        for name, file in self._files.items():
            rank = rank_of(name)
            if file.rest and rank is not None:
                yield Line(rank, _text(file.rest))
                file.rest = b""

    def _read(self, address: str, file: _File, rank: int) -> Iterator[Line]:
        while True:
            found = self.fetch(address, file.offset - len(file.tail))
            if found is None or not found.startswith(file.tail):
                file.offset, file.tail, file.rest = 0, b"", b""
                found = self.fetch(address, 0) or b""
            new = found[len(file.tail) :]
            file.offset += len(new)
            file.tail = (file.tail + new)[-TAIL:]
            *whole, file.rest = (file.rest + new).split(b"\n")
            for line in whole:
                yield Line(rank, _text(line))
            if len(file.rest) > LONGEST:
                yield Line(rank, _text(file.rest))
                file.rest = b""
            if len(found) < CHUNK:
                return


def wanted(names: Iterable[str], ranks: Callable[[int], bool]) -> list[tuple[str, int]]:
    """Log files of processes with their ranks, in order of these."""
    known = ((name, rank_of(name)) for name in names)
    found = [(name, rank) for name, rank in known if rank is not None and ranks(rank)]
    return sorted(found, key=lambda one: (one[1], one[0]))


def rank_of(name: str) -> int | None:
    """Whose log a file is; 0 for that of the only process, none for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1] or 0) if match else None


def fetcher(workspace: Workspace) -> Fetch:
    """Reads addresses that hold their own signature."""

    def fetch(address: str, offset: int) -> bytes | None:
        headers = {"Range": f"bytes={offset}-{offset + CHUNK - 1}"}
        with workspace.errors("log file"):
            response = workspace.anonymous.send_request(
                HttpRequest("GET", address, headers=headers)
            )
            if response.status_code == 416:
                return _past_end(response.headers.get("Content-Range", ""), offset)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            content: bytes = response.content
            # A server may ignore the range, and send the file from its start.
            return content if response.status_code == 206 else content[offset : offset + CHUNK]

    return fetch


def _past_end(content_range: str, offset: int) -> bytes | None:
    size = content_range.rpartition("/")[2]
    return None if size.isdigit() and int(size) < offset else b""


def _text(line: bytes) -> str:
    # A progress bar writes over itself; its last state is what a person would see.
    return line.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
