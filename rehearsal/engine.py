"""Runs jobs."""

from typing import Any

from rehearsal.runs import Runs


class Engine:
    """Jobs and the nodes that they run on."""

    def __init__(self, runs: Runs) -> None:
        """Run nothing yet."""
        self._runs = runs

    def submit(self, job: str) -> None:
        """Take a job up."""
        self._runs.change(job, status="Queued")

    def cancel(self, job: str) -> None:
        """End a job."""
        self._runs.change(job, status="Canceled")

    def nodes(self, cluster: str) -> list[dict[str, Any]]:
        """Nodes of a cluster."""
        return []

    def close(self) -> None:
        """End all."""
