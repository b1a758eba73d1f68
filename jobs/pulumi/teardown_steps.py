"""The steps of a teardown.

Each looks first at what is still there. The workspace is purged while it lives: one that is only
deleted keeps its name for 14 days, and Pulumi's own deletion is of that kind.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from common.errors import UserError
from jobs.azure.job_records import ENDED
from jobs.azure.workspace import Workspace, segment
from jobs.console import Console
from jobs.errors import MissingError, RequestError
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.leftover_resources import (
    VAULTS,
    Left,
    deleted_vault,
    vault_name,
    workspace_is_there,
)
from jobs.pulumi.state import Declared


class Dismantling:
    """The steps, in their order.

    Args:
        workspace: of the stack.
        pulumi: of the stack.
        console: is told what is done.
        wait: seconds for each step at most.
        poll: seconds between two looks.
    """

    def __init__(
        self, workspace: Workspace, pulumi: Pulumi, console: Console, wait: float, poll: float
    ) -> None:
        self._workspace, self._pulumi, self._console = workspace, pulumi, console
        self._wait, self._poll = wait, poll
        self.done: list[str] = []

    def run(self, declared: Sequence[Declared]) -> None:
        """Delete everything that is still there.

        Raises:
            UserError: a step failed; those before it are done.
        """
        if workspace_is_there(self._workspace):
            self._cancel_jobs()
            self.delete_clusters()
        self._purge_workspace()
        if declared:
            self._console.note("pulumi destroys what is left of the stack")
            self._pulumi.destroy()
            self._did("destroyed the stack's resources")
        self._purge_vault()

    def declared_left(self) -> list[Left]:
        """What Pulumi's state still knows."""
        return [
            Left(f"{one.kind} {one.name}", "is in Pulumi's state" + ", protected" * one.protected)
            for one in self._pulumi.declared()
        ]

    def _cancel_jobs(self) -> None:
        asked: set[str] = set()

        def ended() -> bool:
            names = running(self._workspace)
            for name in names:
                # One that is supervised may have been submitted again meanwhile.
                if name not in asked:
                    self._cancel(name)
                    asked.add(name)
            return not names

        self._until(ended, "jobs to end")
        if asked:
            self._did(f"cancelled {len(asked)} jobs")

    def _cancel(self, name: str) -> None:
        try:
            self._ask("POST", f"jobs/{segment(name)}/cancel")
        except RequestError:
            # Azure refuses it for a job that has ended since it was listed.
            if name in running(self._workspace):
                raise

    def delete_clusters(self, names: Collection[str] | None = None) -> None:
        """Delete clusters with their nodes, and wait until they are gone.

        Args:
            names: of those; all that the workspace has if none.

        Raises:
            UserError: Azure refuses it, or it does not end.
        """

        def computes() -> list[Any]:
            try:
                found = list(self._workspace.arm_list("computes"))
            except MissingError:
                return []
            return [one for one in found if names is None or one["name"] in names]

        found = computes()
        for one in found:
            if (one["properties"].get("provisioningState") or "") != "Deleting":
                path = f"computes/{segment(one['name'])}?underlyingResourceAction=Delete"
                self._ask("DELETE", path)
        self._until(lambda: not computes(), "clusters to be gone")
        if found:
            which = f"{len(found)} clusters" if names is None else ", ".join(names)
            self._did(f"deleted {which}")

    def _purge_workspace(self) -> None:
        was_there = workspace_is_there(self._workspace)
        # Also one that is deleted already, of which nothing but this request can tell.
        self._ask("DELETE", f"{self._workspace.id}?forceToPurge=true")
        self._until(lambda: not workspace_is_there(self._workspace), "the workspace to be gone")
        if was_there:
            self._did(f"purged workspace {self._workspace.outputs.workspace}")

    def _purge_vault(self) -> None:
        vault = deleted_vault(self._workspace)
        if vault is None or vault.get("purgeProtectionEnabled"):
            return
        self._ask("POST", f"{vault['id']}/purge", VAULTS)
        self._until(lambda: deleted_vault(self._workspace) is None, "the vault to be gone")
        self._did(f"purged vault {vault_name(self._workspace.outputs)}")

    def _ask(self, method: str, path: str, *api_version: str) -> None:
        """Ask for a deletion; what is not there any more is what was wanted."""
        try:
            self._workspace.arm(method, path, *api_version)
        except MissingError:
            return

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + self._wait
        told = False
        while not reached():
            if time.monotonic() >= ends:
                raise UserError(
                    f"waited {self._wait / 60:g} minutes for {what}; look at workspace"
                    f" {self._workspace.outputs.workspace} in the portal, and give the same command"
                    " again"
                )
            if not told:
                self._console.note(f"waiting for {what}")
                told = True
            time.sleep(self._poll)

    def _did(self, what: str) -> None:
        self.done.append(what)
        self._console.note(what)


def running(workspace: Workspace, cluster: str | None = None) -> list[str]:
    """Names of the jobs that have not ended.

    Args:
        workspace: that they are in.
        cluster: that they are on, or wait for; any if none.
    """
    try:
        jobs = list(workspace.arm_list("jobs?listViewType=All"))
    except MissingError:
        return []
    return [
        str(one["name"])
        for one in jobs
        if one["properties"].get("status") not in ENDED
        and (cluster is None or _place(one["properties"]).lower() == cluster.lower())
    ]


def _place(job: dict[str, Any]) -> str:
    """Name of a job's compute, of its id or of an address of it."""
    return str(job.get("computeId") or "").rpartition("/")[2]
