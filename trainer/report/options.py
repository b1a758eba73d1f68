"""Options of `trainer report`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Positional


@dataclass(frozen=True)
class ReportOptions:
    """Write a page about a run, or one that compares several."""

    runs: Annotated[tuple[str, ...], Positional("[RUN...]")] = ("runs/latest",)
    """Folders of the runs; without one it is runs/latest."""

    output: str | None = None
    """File to write, by default report.html in the run folder, or compare.html beside the first of
    several run folders."""
