"""The note "Not tested on Azure", which stands once at the top of each page that needs it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

START: Final = "> **Not tested on Azure.**"
NOTE: Final = f"{START} [What was tested, and what was not](tested.md)."
_LIST: Final = re.compile(r"^  untested: \[([^\]]*)\]", re.MULTILINE)


def untested(configuration: str) -> list[str]:
    """Return the names of the pages that carry the note, by the content of mkdocs.yml.

    Raises:
        ValueError: It has no list of them.
    """
    match = _LIST.search(configuration)
    if match is None:
        raise ValueError("mkdocs.yml: extra.untested is missing")
    return re.findall(r"[\w-]+", match[1])


def noted(text: str) -> str:
    """Return a page with the note below its title, unless it has one with words of its own."""
    if f"\n{START}" in text:
        return text
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{NOTE}\n{rest}"


def badged(folder: Path) -> Mapping[Path, str]:
    """Return the pages that carry the note, with it."""
    names = untested((folder.parent / "mkdocs.yml").read_text())
    pages = (folder / f"{name}.md" for name in names)
    return {page: noted(page.read_text()) for page in pages}
