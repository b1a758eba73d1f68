"""The note "Not tested on Azure", which stands once at the top of each page that needs it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

START: Final = "> **Not tested on Azure.**"
NOTE: Final = f"{START} [What was tested, and what was not](tested.md)."
UNTESTED: Final = (
    *("access", "commission", "deploy-a-model", "deploy-the-platform", "first-training-on-azure"),
    *("jobs", "look-into-a-run", "own-images-on-azure", "pipelines", "plan", "platform", "spot"),
    *("train-on-azure", "transfer", "upgrade"),
)
"""Pages about Azure whose commands met only the simulator."""


def noted(text: str) -> str:
    """Return a page with the note below its title, unless it has one with words of its own."""
    if f"\n{START}" in text:
        return text
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{NOTE}\n{rest}"


def badged(folder: Path) -> Mapping[Path, str]:
    """Return the pages that carry the note, with it."""
    pages = (folder / f"{name}.md" for name in UNTESTED)
    return {page: noted(page.read_text()) for page in pages}
