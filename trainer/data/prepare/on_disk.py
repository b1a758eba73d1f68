"""A mapping on disk, for what a preparation knows of each image. Standard library only."""

import pickle
import sqlite3
from collections.abc import Iterator, MutableMapping
from typing import Generic, TypeVar

V = TypeVar("V")

_CACHE_KIB = 4096
"""Memory that a mapping may use, in KiB; the rest is in a file that vanishes with it."""


class OnDisk(MutableMapping[str, V], Generic[V]):
    """Values by text, in the order in which their keys were first set, as in a dict."""

    def __init__(self) -> None:
        # Without a name, the database is a temporary file of its own.
        self._database = sqlite3.connect("")
        self._database.executescript(
            f"PRAGMA cache_size = -{_CACHE_KIB}; PRAGMA journal_mode = OFF;"
            " CREATE TABLE item (number INTEGER PRIMARY KEY, key BLOB UNIQUE, value BLOB);"
        )

    def __getitem__(self, key: str) -> V:
        query = "SELECT value FROM item WHERE key = ?"
        row = self._database.execute(query, (_encoded(key),)).fetchone()
        if row is None:
            raise KeyError(key)
        value: V = pickle.loads(row[0])  # noqa: S301 - written below, in a file without a name
        return value

    def __setitem__(self, key: str, value: V) -> None:
        query = """INSERT INTO item (key, value) VALUES (?, ?)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value"""
        self._database.execute(query, (_encoded(key), pickle.dumps(value)))

    def __delitem__(self, key: str) -> None:
        deleted = self._database.execute("DELETE FROM item WHERE key = ?", (_encoded(key),))
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
            yield key.decode("utf-8", "surrogatepass")


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
