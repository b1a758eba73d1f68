"""Options of `trainer report` and `trainer inspect`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Positional


@dataclass(frozen=True)
class ReportOptions:
    """Write a page about a run, or one that compares several."""

    runs: Annotated[tuple[str, ...], Positional("[RUN...]")] = ("runs/latest",)
    """Folders of the runs; without one it is runs/latest."""

    output: str | None = None
    """File to write, by default report.html in the run folder, or compare.html next to the first of
    several run folders."""


@dataclass(frozen=True)
class InspectOptions:
    """Write a page that shows a data set."""

    folder: Annotated[str, Positional("DIR")] = ""
    """Folder of the data set."""

    output: str | None = None
    """File to write, by default inspect.html in DIR."""

    per_class: Annotated[int, Bounds(at_least=0, at_most=100)] = 8
    """Images shown per class; fewer if there are more than 100 classes, to keep the page small. 0
    shows none, so that the page contains no copies of images."""
