"""The bytes of a file, wherever it lies."""

import os
import sys
import time

from trainer.data.prepare.encode import RejectedError
from trainer.data.prepare.entries import Entry
from trainer.errors import DataError

LARGEST = 200_000_000
"""Bytes of a file that is read at all; it is held in memory."""

_PAUSES = (1.0, 5.0)
"""Seconds before a failed read is tried again: storage over a network has short failures."""


class Reader:
    """Reads entries; keeps the container of the last one open, which may be an archive of all."""

    def __init__(self) -> None:
        self._container: str | None = None
        self._file = -1

    def read(self, entry: Entry) -> bytes:
        """The bytes of one file.

        Raises:
            RejectedError: it cannot be used: too large, or not readable for this user.
            DataError: it is not what was listed any more, or its storage fails.
        """
        if entry.size > LARGEST:
            raise RejectedError(f"has {entry.size:,} bytes, more than an image can have")
        for pause in (*_PAUSES, None):
            try:
                data = self._read(entry)
                break
            except PermissionError as error:
                raise RejectedError(f"cannot be read ({error.strerror})") from error
            except OSError as error:
                self.close()
                if pause is None or isinstance(error, FileNotFoundError):
                    raise DataError(
                        f"{_place(entry)}: cannot be read ({error.strerror}); the same command"
                        " continues once it can"
                    ) from error
                print(
                    f"warning: {_place(entry)}: {error.strerror}; again in {pause:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
                time.sleep(pause)
        if len(data) != entry.size:
            raise DataError(
                f"{_place(entry)}: has changed since it was listed; once nothing writes there,"
                " start again with an empty --output"
            )
        return data

    def close(self) -> None:
        """Close the container."""
        if self._container is not None:
            os.close(self._file)
            self._container = None

    def _read(self, entry: Entry) -> bytes:
        if self._container != entry.container:
            self.close()
            self._file = os.open(entry.container, os.O_RDONLY)
            self._container = entry.container
        # One byte more than there should be tells a file that has grown.
        data = os.pread(self._file, entry.size + _is_container(entry), entry.offset)
        while len(data) < entry.size:
            more = os.pread(self._file, entry.size - len(data), entry.offset + len(data))
            if not more:
                break
            data += more
        return data


def _place(entry: Entry) -> str:
    return entry.container if _is_container(entry) else f"{entry.container}: {entry.name}"


def _is_container(entry: Entry) -> bool:
    """Whether an entry is a file of its own, not part of an archive."""
    return os.path.basename(entry.container) == os.path.basename(entry.name)  # noqa: PTH119 - speed
