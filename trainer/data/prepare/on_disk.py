"""The facts that a command has of each image, on disk instead of in memory. Standard library
only.
"""

import pickle
import sqlite3
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Generic, TypeVar

V = TypeVar("V")

_CACHE_KIB = 4096
"""Memory that a database may use, in KiB."""


def scratch_database(schema: str, path: Path | None = None) -> sqlite3.Connection:
    """Return a new database that is not kept.

    Args:
        schema: Statements that create its tables.
        path: File for it, which other processes can read; by default a temporary file that vanishes
            with the database.
    """
    # Without a name, the database is a temporary file of its own.
    database = sqlite3.connect(path or "")
    database.executescript(
        f"PRAGMA cache_size = -{_CACHE_KIB}; PRAGMA journal_mode = OFF; {schema}"
    )
    return database


def encoded(text: str) -> bytes:
    """Return a text as bytes that sort like it, even if it is a name that is not UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Return the text of which `encoded` made bytes."""
    return data.decode("utf-8", "surrogatepass")


class OnDisk(MutableMapping[str, V], Generic[V]):
    """Values by text, in the order in which their keys were first set, as in a dict."""

    def __init__(self) -> None:
        self._database = scratch_database(
            "CREATE TABLE item (number INTEGER PRIMARY KEY, key BLOB UNIQUE, value BLOB);"
        )

    def __getitem__(self, key: str) -> V:
        query = "SELECT value FROM item WHERE key = ?"
        row = self._database.execute(query, (encoded(key),)).fetchone()
        if row is None:
            raise KeyError(key)
        value: V = pickle.loads(row[0])  # noqa: S301 - written below, in a file without a name
        return value

    def __setitem__(self, key: str, value: V) -> None:
        query = """INSERT INTO item (key, value) VALUES (?, ?)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
        self._database.execute(query, (encoded(key), pickle.dumps(value)))

    def __delitem__(self, key: str) -> None:
        deleted = self._database.execute("DELETE FROM item WHERE key = ?", (encoded(key),))
        if not deleted.rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        yield from self._keys("number")

    def __len__(self) -> int:
        (count,) = self._database.execute("SELECT count(*) FROM item").fetchone()
        return int(count)

    def ordered(self) -> Iterator[str]:
        """Yield the keys in the order of their characters."""
        yield from self._keys("key")

    def _keys(self, order: str) -> Iterator[str]:
        for (key,) in self._database.execute(f"SELECT key FROM item ORDER BY {order}"):  # noqa: S608
            yield decoded(key)
