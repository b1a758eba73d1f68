"""Records of runs: what became of each job."""

import datetime as dt
import threading
from typing import Any

from rehearsal.control_plane.resource_kind import now
from rehearsal.control_plane.store import Document, Store

SPACE = "runs"
ENDED = ("Completed", "Failed", "Canceled")


class Runs:
    """The record of each run, by the id of its job."""

    def __init__(self, store: Store) -> None:
        """Keep records in a store."""
        self._store = store
        self._changed = threading.Condition()

    def create(self, job: str) -> None:
        """Begin a record."""
        record = {"status": "NotStarted", "createdUtc": now(), "logFiles": [], "states": []}
        self._store.put(SPACE, job, record)
        self.change(job, status="NotStarted")

    def get(self, job: str) -> Document:
        """A record; that of an unknown job says nothing but NotStarted."""
        return self._store.get(SPACE, job) or {"status": "NotStarted", "logFiles": [], "states": []}

    def change(self, job: str, **values: Any) -> None:
        """Write values; what ended stays as it is."""
        with self._store.lock:
            record = self.get(job)
            status = values.get("status", record["status"])
            if record["status"] in ENDED:
                return
            record |= values
            if values.get("status"):
                record["states"].append([status, now()])
            if status == "Running" and "startTimeUtc" not in record:
                record["startTimeUtc"] = now()
            if status in ENDED:
                record["endTimeUtc"] = now()
            self._store.put(SPACE, job, record)
        with self._changed:
            self._changed.notify_all()

    def seconds_in_state(self, job: str) -> float:
        """Since a run came into its state."""
        states = self.get(job)["states"]
        if not states:
            return 0.0
        since = dt.datetime.fromisoformat(states[-1][1])
        return (dt.datetime.now(dt.UTC) - since).total_seconds()

    def forget(self, job: str) -> None:
        """Remove a record."""
        self._store.delete(SPACE, job)
