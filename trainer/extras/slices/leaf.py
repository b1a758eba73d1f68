"""Options of slices. Standard library only."""

import re
from dataclasses import dataclass
from typing import Any, Final

from common.program import Command
from trainer.leaf import DENSE_TASK, Feature, Leaf


@dataclass(frozen=True)
class SlicesOptions:
    """Parts of the held-out images that the page of the run has metrics of."""

    pattern: str | None = None
    """Regular expression that finds the slice of an image in its name in the data set, such as
    site([0-9]+)/: its first group, or all that matches. Names that were hashed or numbered have
    nothing to find; use `table`."""

    table: str | None = None
    """CSV file with `column`, and a column of the names of records or of their files; that, the
    separator and the encoding are found. By default the columns that `prepare table` has kept."""

    column: str | None = None
    """Column whose values are the slices."""

    @property
    def asked(self) -> bool:
        """Whether any are asked for."""
        return self.pattern is not None or self.table is not None or self.column is not None

    def problems(self, prefix: str) -> list[str]:
        """Return the faults of the options.

        Args:
            prefix: What precedes their names on the command line, such as "--".
        """
        problems = []
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            problems.append(f"{prefix}pattern: is not a regular expression ({error})")
        if self.table is not None and self.column is None:
            problems.append(f"{prefix}table: add {prefix}column, whose values are the slices")
        if self.pattern is not None and (self.table or self.column) is not None:
            problems.append(f"{prefix}pattern: slices are of names or of a table, not of both")
        return problems


def _problems(config: Any) -> list[str]:
    options = config.of(SlicesOptions)
    problems: list[str] = options.problems("--slices.")
    if options.asked and config.data.source == "synthetic":
        problems.append("--slices: synthetic data have no held-out images")
    return problems


LEAF: Final = Leaf(
    key="slices",
    options=SlicesOptions,
    on_resume="free",
    features=(
        Feature(
            "slices",
            "--slices.pattern (.)",
            lambda config: config.of(SlicesOptions).asked,
            {(DENSE_TASK,): "slices are counted of one class per image"},
        ),
    ),
    problems=_problems,
    predicted="trainer.extras.slices.measure:measure_run",
    sections="trainer.extras.slices.section:sections",
    commands=(
        Command(
            "slices",
            "look at runs",
            "count the right predictions of a finished run in parts of the held-out images",
            "trainer.extras.slices.measure:run",
            "trainer.extras.slices.options:SlicesCommandOptions",
        ),
    ),
)
