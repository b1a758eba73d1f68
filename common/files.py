"""Files that are complete or absent, whatever ends the process that writes them."""

import os
from pathlib import Path


def write_atomically(path: Path, text: str, *, errors: str = "strict", sync: bool = False) -> None:
    """Write a text file in one step: readers see the old content or all of the new.

    Args:
        path: the file; its folder is made if it is not there.
        text: the content, written as UTF-8.
        errors: what to do about characters that UTF-8 does not have, as in `str.encode`.
        sync: whether to wait until the content is on the disk, so that it also survives a loss of
            power.

    Raises:
        OSError: the file cannot be written; what was there before stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}-{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", errors=errors) as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
