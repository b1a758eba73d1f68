"""The steps of a teardown.

Each looks first at what is still there. The workspace is purged while it lives: one that is only
deleted keeps its name for 14 days, and Pulumi's own deletion is of that kind.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from common.errors import UserError
from common.text import plural
from jobs.azure.job_records import Jobs
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console
from jobs.errors import MissingError, RequestError
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.leftover_resources import VAULTS, AzureResources, Leftover
from jobs.pulumi.state import StackResource


class Teardown:
    """The steps, in their order.

    Args:
        manager: of the stack.
        jobs: of the stack's workspace.
        resources: of the stack in Azure.
        pulumi: of the stack.
        console: is told what is done.
        wait: seconds for each step at most.
        poll: seconds between two looks.
    """

    def __init__(
        self,
        manager: ResourceManager,
        jobs: Jobs,
        resources: AzureResources,
        pulumi: Pulumi,
        console: Console,
        wait: float,
        poll: float,
    ) -> None:
        self._manager, self._jobs, self._resources = manager, jobs, resources
        self._pulumi, self._console = pulumi, console
        self._wait, self._poll = wait, poll
        self.done: list[str] = []

    def run(self, stack_resources: Sequence[StackResource]) -> None:
        """Delete everything that is still there.

        Args:
            stack_resources: what Pulumi's state holds.

        Raises:
            UserError: a step failed; those before it are done.
        """
        if self._resources.has_workspace():
            self._cancel_jobs()
            self.delete_clusters()
        self._purge_workspace()
        if stack_resources:
            self._console.note("pulumi destroys what is left of the stack")
            self._pulumi.destroy()
            self._did("destroyed the stack's resources")
        self._purge_vault()

    def leftovers_of_state(self) -> list[Leftover]:
        """What Pulumi's state still knows."""
        return [
            Leftover(
                f"{resource.kind} {resource.name}",
                "is in Pulumi's state" + ", protected" * resource.protected,
            )
            for resource in self._pulumi.resources()
        ]

    def delete_clusters(self, names: Collection[str] | None = None) -> None:
        """Delete clusters with their nodes, and wait until they are gone.

        Args:
            names: of those; all that the workspace has if None.

        Raises:
            UserError: Azure refuses it, or it does not end.
        """

        def computes() -> list[Any]:
            try:
                items = list(self._manager.items("computes"))
            except MissingError:
                return []
            return [item for item in items if names is None or item["name"] in names]

        deleted = computes()
        for compute in deleted:
            if (compute["properties"].get("provisioningState") or "") != "Deleting":
                path = f"computes/{segment(compute['name'])}?underlyingResourceAction=Delete"
                self._delete(path)
        self._until(lambda: not computes(), "clusters to be gone")
        if deleted:
            which = plural(len(deleted), "cluster") if names is None else ", ".join(names)
            self._did(f"deleted {which}")

    def _cancel_jobs(self) -> None:
        asked: set[str] = set()

        def ended() -> bool:
            names = self._jobs.running()
            for name in names:
                # One that is supervised may have been submitted again meanwhile.
                if name not in asked:
                    self._cancel(name)
                    asked.add(name)
            return not names

        self._until(ended, "jobs to end")
        if asked:
            self._did(f"cancelled {plural(len(asked), 'job')}")

    def _cancel(self, name: str) -> None:
        try:
            self._jobs.cancel(name)
        except MissingError:
            return
        except RequestError:
            # Azure refuses it for a job that has ended since it was listed.
            if name in self._jobs.running():
                raise

    def _purge_workspace(self) -> None:
        existed = self._resources.has_workspace()
        # Also one that is deleted already, of which nothing but this request can tell.
        self._delete(f"{self._manager.workspace_id}?forceToPurge=true")
        self._until(lambda: not self._resources.has_workspace(), "the workspace to be gone")
        if existed:
            self._did(f"purged workspace {self._manager.workspace}")

    def _purge_vault(self) -> None:
        vault = self._resources.deleted_vault()
        if vault is None or vault.get("purgeProtectionEnabled"):
            return
        with suppress(MissingError):
            self._manager.post(f"{vault['id']}/purge", api_version=VAULTS)
        self._until(lambda: self._resources.deleted_vault() is None, "the vault to be gone")
        self._did(f"purged vault {self._resources.vault}")

    def _delete(self, path: str) -> None:
        """Ask for a deletion; what is not there any more is what was asked for."""
        with suppress(MissingError):
            self._manager.delete(path)

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + self._wait
        told = False
        while not reached():
            if time.monotonic() >= ends:
                raise UserError(
                    f"waited {self._wait / 60:g} minutes for {what}; look at workspace"
                    f" {self._manager.workspace} in the portal, and give the same command again"
                )
            if not told:
                self._console.note(f"waiting for {what}")
                told = True
            time.sleep(self._poll)

    def _did(self, what: str) -> None:
        self.done.append(what)
        self._console.note(what)
