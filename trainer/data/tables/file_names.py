"""Which file a table means by a name, and which row is of a file. Standard library only."""

import unicodedata
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import PurePosixPath
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_AMBIGUOUS: Final = ""


class ByName(Generic[T]):
    """Values by the paths of files, looked up by the names of these files in a table.

    That is the path; or, if only one file has it, the file's name, or its name without the suffix.
    Where the paths themselves are names of files alone, any folder fits. Backslashes are slashes,
    and composed and decomposed letters are equal: archives of macOS hold decomposed ones.
    """

    def __init__(
        self, values: Mapping[str, T], known: MutableMapping[str, str] | None = None
    ) -> None:
        """Find out the names.

        Args:
            values: Values by path.
            known: Empty mapping to hold the names, such as one on disk; by default a dict.
        """
        self._values = values
        self._known = {} if known is None else known
        for path in values:
            for name in _names(path):
                first = self._known.setdefault(name, path)
                if first not in (path, _AMBIGUOUS):
                    self._known[name] = _AMBIGUOUS
        # A path has precedence over the same text as the name of another file.
        for path in values:
            self._known[_plain(path)] = path

    @property
    def example(self) -> str:
        """Path of the first file; none if there are no files."""
        return next(iter(self._values), "none")

    def path(self, name: str) -> str | None:
        """Return the path of the file of a name; None if there is none, or several."""
        if name in self._values:
            return name
        plain, *others = _names(name)
        path = self._known.get(plain)
        if path is None:
            # A table may have names of files alone, of which the folder is not known.
            alone = (self._known.get(other) for other in others)
            path = next((p for p in alone if p and "/" not in p), None)
        return path or None

    def get(self, name: str) -> T | None:
        """Return the value of a file by its name; None if there is none, or several."""
        path = self.path(name)
        return None if path is None else self._values[path]

    def count(self, names: Iterable[str]) -> int:
        """Return how many names are of a file."""
        return sum(self.path(name) is not None for name in names)


def _names(path: str) -> tuple[str, ...]:
    plain = _plain(path)
    pure = PurePosixPath(plain)
    return plain, pure.name, pure.stem


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).removeprefix("./")
