"""columns.csv: the columns of a table about the images of a data set besides their classes.
Standard library only.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from common.files import write_table

FILE: Final = "columns.csv"
NAME: Final = "name"
"""Column with the names of records."""


@dataclass(frozen=True)
class KeptColumns:
    """Columns of a table that are kept with a data set."""

    names: tuple[str, ...]
    values: Callable[[str], Sequence[str]]
    """Returns the values of an image, in the order of `names`, by the path of its file."""

    def write(self, folder: Path, files: Iterable[tuple[str, str]]) -> None:
        """Write columns.csv.

        Args:
            folder: Folder of the data set.
            files: Names of the records, and the paths of their files.
        """
        # A table must not have two columns of one name.
        names = [f"{name} (table)" if name == NAME else name for name in self.names]
        rows = ((title, *self.values(path)) for title, path in files)
        write_table(folder / FILE, (NAME, *names), rows, errors="surrogateescape")
