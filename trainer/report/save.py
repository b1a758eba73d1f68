"""How pages are written."""

import os
from pathlib import Path


def save_page(page: str, output: Path) -> None:
    """Write a page, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    scratch = output.with_name(f".{output.name}-{os.getpid()}.partial")
    try:
        scratch.write_text(page, encoding="utf-8", errors="replace")
        scratch.replace(output)
    finally:
        scratch.unlink(missing_ok=True)
