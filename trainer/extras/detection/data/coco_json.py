"""The entries of COCO's JSON one by one, so that a file of gigabytes needs no memory."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trainer.errors import DataError

_PART: Final = 1 << 20
"""Characters that are read at once, at least."""
OUTLINE: Final = "segmentation"
_SPACE: Final = " \t\n\r"


def entries(path: Path, needed: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, int, Any]]:
    """Yield the entries of some lists of a file: the name of the list, and number and content of
    the entry.

    Args:
        path: The file.
        needed: The lists, and the keys that each entry has at least.

    Raises:
        DataError: It is not COCO's JSON; says where.
    """
    try:
        with path.open("rb") as file:
            encoding = json.detect_encoding(file.read(4))
        yield from _entries(_Text(path, encoding), path, needed)
    except RecursionError as error:
        raise DataError(f"{path}: cannot be read as JSON (it has too many nested lists)") from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as JSON ({error})") from error


def _entries(
    text: "_Text", path: Path, needed: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, int, Any]]:
    if text.next() != "{":
        text.value()
        raise DataError(f"{path}: is not COCO's JSON, which has images, annotations and categories")
    keys = set[str]()
    for key in text.members():
        if key not in needed:
            text.value()
            continue
        if text.next() != "[":
            raise DataError(f"{path}: has no list of {key}, as COCO's JSON of instances has")
        if key in keys:
            raise DataError(f"{path}: has two lists of {key}")
        keys.add(key)
        for number, entry in enumerate(text.elements()):
            missing = [f for f in needed[key] if not isinstance(entry, dict) or f not in entry]
            if missing:
                raise DataError(f"{path}: entry {number} of its {key} has no {missing[0]}")
            yield key, number, entry
    text.end()
    for key in needed:
        if key not in keys:
            raise DataError(f"{path}: has no list of {key}, as COCO's JSON of instances has")


class _Text:
    """A JSON text that is read in parts."""

    def __init__(self, path: Path, encoding: str) -> None:
        self._file = path.open(encoding=encoding)
        self._text, self._at, self._whole = "", 0, False
        self._decoder = json.JSONDecoder(object_hook=_shorter)

    def _more(self) -> bool:
        """Read the next part, at least as long as the present one, so that a long value is not
        tried again and again; return whether there was one.
        """
        part = self._file.read(max(_PART, len(self._text) - self._at))
        self._text, self._at = self._text[self._at :] + part, 0
        self._whole = not part
        return bool(part)

    def next(self) -> str:
        """Return the next character that is not a space, and stay before it; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _SPACE:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _skip(self, expected: str) -> str:
        """Pass one of some characters.

        Raises:
            JSONDecodeError: Another one comes.
        """
        character = self.next()
        if not character or character not in expected:
            raise json.JSONDecodeError(f"Expecting one of {expected!r}", self._text, self._at)
        self._at += 1
        return character

    def value(self) -> Any:
        """Return the next value."""
        self.next()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._more():
                    raise
                continue
            # A number might continue in the next part.
            if end == len(self._text) and not self._whole and self._more():
                continue
            self._at = end
            return value

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; the caller reads the value of each."""
        self._skip("{")
        if self.next() == "}":
            self._at += 1
            return
        while True:
            if self.next() != '"':
                raise json.JSONDecodeError("Expecting a key", self._text, self._at)
            key = self.value()
            self._skip(":")
            yield key
            if self._skip(",}") == "}":
                return

    def elements(self) -> Iterator[Any]:
        """Yield the values of a list."""
        self._skip("[")
        if self.next() == "]":
            self._at += 1
            return
        while True:
            yield self.value()
            if self._skip(",]") == "]":
                return

    def end(self) -> None:
        """Check that nothing follows."""
        if self.next():
            raise json.JSONDecodeError("Extra data", self._text, self._at)


_READ: Final = frozenset(
    {"id", "file_name", "width", "height", "image_id", "category_id", "bbox", "area", "iscrowd"}
    | {"name"}
)


def _shorter(entry: dict[str, Any]) -> dict[str, Any]:
    """Leave out the outlines of objects, which are most of a file; of an object without a box, only
    the fact that it has one stays.
    """
    short = {key: value for key, value in entry.items() if key in _READ}
    if not entry.get("bbox") and entry.get(OUTLINE) not in (None, [], ""):
        short[OUTLINE] = True
    return short
