"""Read JSON, and write files atomically: complete or absent, even if the process is killed."""

import csv
import errno
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from common.errors import UserError

_REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


def parse_json(content: str | bytes) -> Any:
    """Return the data of a JSON text.

    Raises:
        ValueError: It is not JSON, not UTF-8, or nested too deeply to be read.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_object(content: str | bytes) -> dict[str, Any]:
    """Return the data of a JSON text that is an object.

    Raises:
        ValueError: It is not; see `parse_json`.
    """
    data = parse_json(content)
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 as for other texts
    return data


class UnwritableError(UserError, OSError):
    """This user may not write a file or a folder."""

    def __str__(self) -> str:
        return (
            f"{self.filename}: is not writable ({self.strerror}); let this user write there, or"
            " choose another place"
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name a file or a folder, not its temporary file, if this user may not write there.

    Raises:
        UnwritableError: The file system or its permissions refuse.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        raise UnwritableError(error.errno, error.strerror, str(path)) from error


def write_atomically(
    path: Path, content: str | bytes, *, errors: str = "strict", sync: bool = False
) -> None:
    """Write a file atomically: readers see either the old or the complete new content.

    Args:
        path: Path of the file; its folder is created if it is missing.
        content: Content; a text is written as UTF-8.
        errors: How to handle characters that UTF-8 cannot encode, as in `str.encode`.
        sync: Whether to wait until the content is on disk, so that it also survives a power loss.

    Raises:
        OSError: The file cannot be written; its previous content stays.
    """
    with replacing(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", errors))
        if sync:
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of another one once it is complete.

    Raises:
        UnwritableError: This user may not write there.
        OSError: The file cannot be written for another reason.
    """
    partial = path.with_name(f".{path.name}-{os.getpid()}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = partial.open("wb")
    try:
        with opened as file:
            yield file
        with writing(path):
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_table(
    path: Path,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    errors: str = "strict",
) -> None:
    """Write a CSV file with a line of the columns' names, row by row; see `write_atomically`."""
    with replacing(path) as file:
        text = io.TextIOWrapper(file, "utf-8", errors, newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        text.flush()
        text.detach()
