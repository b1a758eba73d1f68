"""Write docs/reference/: `python -m tools.references`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from common.files import write_atomically
from tools.references.badges import badged
from tools.references.pages import MADE, PAGES, ROOT
from tools.references.schemas import SCHEMAS

FOLDER: Final = ROOT / "docs" / "reference"


def written() -> Mapping[Path, str]:
    """Return the content of every file that is written from the code."""
    pages = {FOLDER / name: MADE + page().rstrip() + "\n" for name, page in PAGES.items()}
    schemas = {
        FOLDER / "schemas" / f"{name}.json": json.dumps(schema, indent=1) + "\n"
        for name, schema in SCHEMAS.items()
    }
    return {**pages, **schemas, **badged(ROOT / "docs")}


def main() -> None:
    """Write the files that differ, and name them."""
    changed = {path: text for path, text in written().items() if _content(path) != text}
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
        print(path.relative_to(ROOT))
    if not changed:
        print("docs/reference/ is that of the code")


def _content(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


if __name__ == "__main__":
    main()
