"""Writes the page of a rehearsal."""

import os
from pathlib import Path

from common.files import write_atomically
from rehearsal.cycle.record import Cycle, from_json
from rehearsal.errors import RehearsalError
from rehearsal.page.cycle_page import draw

_DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "rehearsal.md"


def write(cycle: Cycle, path: Path) -> Path:
    """Write the page; its path. The links of the record are relative to the page's folder.

    Raises:
        OSError: it cannot be written.
    """
    path = path.absolute()
    page = draw(cycle, os.path.relpath(_DOCUMENTATION, path.parent))
    write_atomically(path, page)
    return path


def write_again(record: Path, path: Path | None = None) -> Path:
    """Write the page of a record's file, beside it if no path is given; the page's path.

    Raises:
        RehearsalError: the record cannot be read, or the page cannot be written.
    """
    try:
        text = record.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RehearsalError(f"{record}: cannot be read: {error}") from error
    try:
        return write(from_json(text), path or record.with_name("rehearsal.html"))
    except RehearsalError as error:
        raise RehearsalError(f"{record}: {error}") from error
    except OSError as error:
        raise RehearsalError(f"the page cannot be written: {error}") from error
