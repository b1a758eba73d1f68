"""Which file a table means by a name, and which row is of a file. Standard library only."""

import unicodedata
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path, PurePosixPath
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_SEVERAL: Final = "\0"
"""Before each of the first two paths of a name that several files have."""


class ByName(Generic[T]):
    """Values by the paths of files, looked up by the names of these files in a table.

    That is the path; or, if only one file has it, the file's name, or its name without the suffix.
    Where the paths themselves are names of files alone, any folder fits. Backslashes are slashes,
    and composed and decomposed letters are equal: archives of macOS hold decomposed ones. An
    absolute path below one of the roots is that from the root.
    """

    def __init__(
        self,
        values: Mapping[str, T],
        known: MutableMapping[str, str] | None = None,
        roots: Iterable[str] = (),
    ) -> None:
        """Find out the names.

        Args:
            values: Values by path.
            known: Empty mapping to hold the names, such as one on disk; by default a dict.
            roots: Absolute paths of the folder that paths are relative to.
        """
        self._values = values
        self._roots = tuple(f"{_plain(root)}/" for root in roots)
        self._known = {} if known is None else known
        for path in values:
            for name in _names(path):
                first = self._known.setdefault(name, path)
                if first != path and not first.startswith(_SEVERAL):
                    self._known[name] = f"{_SEVERAL}{first}{_SEVERAL}{path}"
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
        plain, *others = _names(self._below(name))
        path = self._known.get(plain)
        if path is None:
            # A table may have names of files alone, of which the folder is not known.
            alone = (self._known.get(other, _SEVERAL) for other in others)
            path = next((p for p in alone if not p.startswith(_SEVERAL) and "/" not in p), None)
        return None if path is None or path.startswith(_SEVERAL) else path

    def several(self, name: str) -> str:
        """Return two of the files that a name may mean, as words; empty if only one has it, or
        none.
        """
        _, *paths = self._known.get(self._below(name), "").split(_SEVERAL)
        return " and ".join(paths)

    def _below(self, name: str) -> str:
        plain = _plain(name)
        root = next((root for root in self._roots if plain.startswith(root)), "")
        return plain.removeprefix(root)

    def get(self, name: str) -> T | None:
        """Return the value of a file by its name; None if there is none, or several."""
        path = self.path(name)
        return None if path is None else self._values[path]

    def count(self, names: Iterable[str]) -> int:
        """Return how many names are of a file, or of several."""
        return sum(self.path(name) is not None or bool(self.several(name)) for name in names)


def roots_of(folder: str) -> tuple[str, ...]:
    """Return the absolute paths of a folder: as it is named, and without links."""
    path = Path(folder)
    return str(path.absolute()), str(path.resolve())


def ambiguous(paths: str) -> tuple[str, str, str]:
    """Return why a name that several files have is of none, in parts of which the second one is a
    detail; see `RejectedFile.of`.
    """
    cure = "; write the folder in front of it"
    return "several files have this name", f" (such as {paths})", cure


def _names(path: str) -> tuple[str, ...]:
    plain = _plain(path)
    pure = PurePosixPath(plain)
    return plain, pure.name, pure.stem


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name.replace("\\", "/")).removeprefix("./")
