"""Files that are left out: counted against the limit, and listed with reasons."""

import csv
from collections.abc import Iterable
from pathlib import Path

from trainer.data.prepare.entries import HIDDEN, Refusal
from trainer.data.prepare.rules import allowed_rejections
from trainer.errors import DataError
from trainer.options import WriteOptions

FILE_NAME = "rejected.csv"
_SHOWN = 5


class Rejections:
    """All files of a data set that are left out."""

    def __init__(self, refused: Iterable[Refusal], usable: int, options: WriteOptions) -> None:
        self._all = list(refused)
        self.total = usable + len(self._all)
        """Files that were found, usable or not."""
        self._text = options.max_rejected
        self._allowed = allowed_rejections(options.max_rejected, self.total)

    @property
    def count(self) -> int:
        return len(self._all)

    @property
    def _counted(self) -> list[Refusal]:
        """Those that say something about the data set: not the hidden files of a file manager."""
        return [refusal for refusal in self._all if refusal.reason != HIDDEN]

    def add(self, more: Iterable[Refusal]) -> None:
        """Leave out more files."""
        self._all += more

    def check(self, output: Path) -> None:
        """Make sure that not too many are left out.

        Raises:
            DataError: there are more than --max-rejected; they are listed in rejected.csv.
        """
        counted = self._counted
        if len(counted) <= self._allowed:
            return
        self.save(output)
        shown = "".join(f"\n  - {_name(r)} {r.reason}" for r in sorted(counted, key=_key)[:_SHOWN])
        raise DataError(
            f"{len(counted):,} of {self.total:,} files are no usable images, more than"
            f" --max-rejected {self._text}; {output / FILE_NAME} lists those found so far:{shown}\n"
            "Mend or remove them, or allow more: the same command continues"
        )

    def example(self) -> str:
        """The first one, as part of a sentence."""
        if not self._all:
            return ""
        first = min(self._all, key=_key)
        return f" ({_name(first)}, for one, {first.reason})"

    def save(self, output: Path) -> None:
        """Write rejected.csv, in the order of names; none is written, and none stays, if there is
        nothing to list.
        """
        path = output / FILE_NAME
        if not self._all:
            path.unlink(missing_ok=True)
            return
        with path.open("w", newline="", errors="surrogateescape") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["split", "name", "reason"])
            rows.writerows((r.split, r.name, r.reason) for r in sorted(self._all, key=_key))

    def tell(self, output: Path) -> None:
        """Say that files are left out, if any are."""
        if self._all:
            print(f"{self.count:,} files are left out: {output / FILE_NAME} says why")


def _key(refusal: Refusal) -> tuple[str, str, str]:
    return refusal.split, refusal.name, refusal.reason


def _name(refusal: Refusal) -> str:
    return f"{refusal.split}/{refusal.name}" if refusal.split else refusal.name
