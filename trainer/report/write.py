"""`ml-trainer report`: write the page of one run, or one that compares several."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from common.files import write_atomically
from trainer.leaves import tell_rewritten
from trainer.report.comparison import comparison_page
from trainer.report.options import ReportOptions
from trainer.report.run_data import read_run
from trainer.report.run_page import run_page

PAGE: Final = "report.html"
"""Name of the page in a run folder."""


def run(options: ReportOptions) -> None:
    """`ml-trainer report`: write the page, and print its path; see `write_report`."""
    page = Path(options.output) if options.output else None
    folders = [Path(run) for run in options.runs]
    written = write_report(folders, page)
    if written == folders[0] / PAGE:
        tell_rewritten(folders[0], PAGE)
    print(written)


def write_report(folders: Sequence[Path], output: Path | None = None) -> Path:
    """Write a page about one run, or one that compares several, atomically.

    Args:
        folders: Run folders, at least one; duplicates count once.
        output: File to write, by default report.html in the run folder, or compare.html next to the
        first of several run folders.

    Returns:
        The file that was written.

    Raises:
        CheckpointError: A folder is not a run folder.
        OSError: The page cannot be written.
    """
    different = {folder.resolve(): folder for folder in reversed(folders)}
    runs = [read_run(folder) for folder in reversed(different.values())]
    if output is None:
        first = runs[0].path
        output = first / PAGE if len(runs) == 1 else first.parent / "compare.html"
    page = run_page(runs[0]) if len(runs) == 1 else comparison_page(runs)
    write_atomically(output, page, errors="replace")
    return output
