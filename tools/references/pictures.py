"""The contents of the screenshots in the documents, to tell when they are old.

A screenshot is old once the page that it shows has other headings or columns than when it was
taken. The pages of a small recorded run and data set stand for those in the pictures.

    python -m tools.references.pictures report inspect

notes what these show, as `make -C tools pictures` does.
"""

import ast
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from common.files import write_atomically

ROOT: Final = Path(__file__).resolve().parents[2]
TAKEN: Final = ROOT / "docs" / "images" / "taken.json"
"""The content of each picture when it was taken."""
RECORDED: Final = ROOT / "tests" / "trainer" / "written_before"
"""A run and a data set that are part of the repository."""
HEADINGS: Final = ("h1", "h2", "h3", "th")


class _Headings(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # The names of rows, such as options, come and go without making a picture old.
        if tag in HEADINGS and ("scope", "row") not in attrs:
            self._inside = True
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in HEADINGS:
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[-1] += data


def headings(page: str) -> list[str]:
    """Return the texts of the headings and columns of an HTML page, in their order."""
    parser = _Headings()
    parser.feed(page)
    return [" ".join(text.split()) for text in parser.texts]


def run_report() -> list[str]:
    """Return the contents of the report of a run."""
    # It needs the trainer's environment.
    from trainer.report.write import write_report  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        shutil.copytree(RECORDED / "run", run)
        write_report([run])
        return headings((run / "report.html").read_text())


def data_set_page() -> list[str]:
    """Return the contents of the page of a data set."""
    from trainer.report.data_set_page import write_inspection  # noqa: PLC0415
    from trainer.report.options import InspectOptions  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        options = InspectOptions(output=str(Path(folder, "page.html")))
        return headings(write_inspection(RECORDED / "data", options).read_text())


def steps_of_a_rehearsal() -> list[str]:
    """Return the titles of the steps of a rehearsal, without what runs them."""
    tree = ast.parse((ROOT / "rehearsal" / "cycle" / "steps.py").read_text())
    return [
        str(node.args[1].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "CycleStep"
        and isinstance(node.args[1], ast.Constant)
    ]


PICTURES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "report.png": run_report,
    "inspect.png": data_set_page,
    "rehearsal.png": steps_of_a_rehearsal,
}
"""The content of each picture now."""


def main(names: Sequence[str]) -> None:
    """Note what these pictures show, or what all show; the notes on others stay."""
    known = json.loads(TAKEN.read_text()) if TAKEN.exists() else {}
    taken = [name for name in PICTURES if not names or Path(name).stem in names]
    notes = known | {name: PICTURES[name]() for name in taken}
    write_atomically(TAKEN, json.dumps(notes, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
