"""Persistent state of this Azure: documents by space and key, in SQLite."""

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]


class Store:
    """Documents by space and key, shared by all threads.

    Keys are compared as Azure compares ids: ignoring case.
    """

    def __init__(self, file: Path) -> None:
        """Open the file, or create it."""
        self._lock = threading.RLock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS documents (space TEXT, key TEXT, number INTEGER,"
            " body TEXT NOT NULL, PRIMARY KEY (space, key))"
        )

    @property
    def lock(self) -> threading.RLock:
        """Lock to hold while reading and then writing a document."""
        return self._lock

    def get(self, space: str, key: str) -> Document | None:
        """Return a document; None if there is none."""
        with self._lock:
            row = self._database.execute(
                "SELECT body FROM documents WHERE space=? AND key=?", (space, key.lower())
            ).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def put(self, space: str, key: str, document: Document) -> None:
        """Write a document; an existing one keeps its place in lists."""
        with self._lock:
            self._database.execute(
                "INSERT INTO documents VALUES (?, ?, (SELECT COALESCE(MAX(number), 0) + 1 FROM"
                " documents), ?) ON CONFLICT (space, key) DO UPDATE SET body=excluded.body",
                (space, key.lower(), json.dumps(document)),
            )

    def delete(self, space: str, key: str) -> bool:
        """Remove a document and everything below it; return whether it existed."""
        with self._lock:
            start = key.lower() + "/"
            self._database.execute(
                "DELETE FROM documents WHERE space=? AND substr(key, 1, ?)=?",
                (space, len(start), start),
            )
            done = self._database.execute(
                "DELETE FROM documents WHERE space=? AND key=?", (space, key.lower())
            )
            return done.rowcount > 0

    def below(self, space: str, key: str = "", part: str = "") -> list[Document]:
        """Return all documents below a key, in order of creation.

        Args:
            space: Space of the documents.
            key: Key above them; empty for all.
            part: Text that the keys must contain.
        """
        start = key.lower() + "/" if key else ""
        with self._lock:
            rows = self._database.execute(
                "SELECT body FROM documents WHERE space=? AND substr(key, 1, ?)=?"
                " AND instr(key, ?) ORDER BY number",
                (space, len(start), start, part.lower()),
            ).fetchall()
        return [dict(json.loads(row[0])) for row in rows]

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()
