"""The tables of docs/reference/faults.md."""

from collections.abc import Iterable, Sequence
from typing import Final

from tests import ROOT
from tests.jobs.faults.matrix import CLOCK, FAULTS, NONE, WRONG, Cell

PAGE: Final = ROOT / "docs" / "reference" / "faults.md"
_END: Final = "<!-- end -->"


def table(command: str, cells: Sequence[Cell]) -> str:
    """Return the cells of a command as a Markdown table, and the faults below it."""
    names = [fault.name for fault in FAULTS]
    own = [cell for cell in cells if cell.command == command]
    rows = []
    for kind in dict.fromkeys(cell.kind for cell in own if cell.kind != CLOCK):
        found = {cell.fault: cell.outcome for cell in own if cell.kind == kind}
        rows.append(f"| {kind} | {' | '.join(found.get(name, NONE) for name in names)} |")
    head = [f"| `{command}` | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    (off,) = (cell.outcome for cell in own if cell.kind == CLOCK)
    wrong = [f"- {cell.kind}, {cell.fault}: {cell.why}" for cell in own if cell.outcome == WRONG]
    return "\n".join([*head, *rows, "", f"A clock that is an hour off: {off}", *wrong]) + "\n"


def on_page(command: str) -> dict[tuple[str, str], str]:
    """Return the outcomes of a command, by kind of request and fault, as the page has them."""
    text = PAGE.read_text(encoding="utf-8").split(_begin(command))[1].split(_END)[0]
    rows = [
        [entry.strip() for entry in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ]
    (_, *faults), *rest = rows
    outcomes = {
        (kind, fault): outcome
        for kind, *found in rest
        for fault, outcome in zip(faults, found, strict=True)
    }
    return outcomes | {(CLOCK, CLOCK): text.split("an hour off: ")[1][0]}


def write(commands: Iterable[str], cells: Sequence[Cell]) -> None:
    """Write the tables of commands to the page."""
    text = PAGE.read_text(encoding="utf-8")
    for command in commands:
        before, rest = text.split(_begin(command), 1)
        text = f"{before}{_begin(command)}{table(command, cells)}{_END}{rest.split(_END, 1)[1]}"
    PAGE.write_text(text, encoding="utf-8")


def _begin(command: str) -> str:
    return f"<!-- faults: {command} -->\n"
