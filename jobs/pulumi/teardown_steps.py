"""The steps of a teardown.

Each step first checks what still exists. The workspace is purged before Pulumi deletes it: a
workspace that is only deleted, as by Pulumi, keeps its name for 14 days.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

from common.errors import UserError
from common.program import load
from common.text import plural
from common.waiting import wait_until
from jobs.azure.job_records import Jobs
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.console import Console
from jobs.errors import MissingError, RequestError
from jobs.leaves import LEAVES
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.leftover_resources import VAULTS, AzureResources, Leftover
from jobs.pulumi.state import StackResource


class Teardown:
    """The steps, in their order.

    Args:
        manager: Resource Manager of the stack.
        jobs: Jobs of the stack's workspace.
        resources: Resources of the stack in Azure.
        pulumi: Pulumi CLI for the stack.
        console: Prints what is done.
        wait: Longest time for each step, in seconds.
        poll: Seconds between two checks of the progress.
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
        """Delete everything that still exists.

        Args:
            stack_resources: Resources in Pulumi's state.

        Raises:
            UserError: A step failed; the steps before it are done.
        """
        if self._resources.has_workspace():
            # First, what costs money without jobs.
            for delete in (load(leaf.delete) for leaf in LEAVES if leaf.delete):
                deleted = delete(self._manager, self._console, self._wait, self._poll)
                if deleted is not None:
                    self._did(f"deleted {deleted}")
            self._cancel_jobs()
            self.delete_clusters()
        self._purge_workspace()
        if stack_resources:
            self._console.note("running pulumi destroy for the rest of the stack")
            self._pulumi.destroy()
            self._did("destroyed the stack's resources")
        self._purge_vault()

    def leftovers_of_state(self) -> list[Leftover]:
        """List the resources that are still in Pulumi's state."""
        return [
            Leftover(
                f"{resource.kind} {resource.name}",
                "is in Pulumi's state" + ", protected" * resource.protected,
            )
            for resource in self._pulumi.resources()
        ]

    def delete_clusters(self, names: Collection[str] | None = None) -> None:
        """Delete clusters with their nodes, and wait until they are deleted.

        Args:
            names: Names of the clusters; None is all clusters of the workspace.

        Raises:
            UserError: Azure refused the deletion, or it timed out.
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
        self._until(lambda: not computes(), "the deletion of the clusters")
        if deleted:
            which = plural(len(deleted), "cluster") if names is None else ", ".join(names)
            self._did(f"deleted {which}")

    def _cancel_jobs(self) -> None:
        asked: set[str] = set()

        def ended() -> bool:
            names = self._jobs.running()
            for name in names:
                # A supervised run may have been submitted again in the meantime.
                if name not in asked:
                    self._cancel(name)
                    asked.add(name)
            return not names

        self._until(ended, "the jobs to end")
        if asked:
            self._did(f"cancelled {plural(len(asked), 'job')}")

    def _cancel(self, name: str) -> None:
        try:
            self._jobs.cancel(name)
        except MissingError:
            return
        except RequestError:
            # Azure refuses to cancel a job that has ended since it was listed.
            if name in self._jobs.running():
                raise

    def _purge_workspace(self) -> None:
        existed = self._resources.has_workspace()
        # Also if it is already soft-deleted, which only this request can reveal.
        self._delete(f"{self._manager.workspace_id}?forceToPurge=true")
        self._until(lambda: not self._resources.has_workspace(), "the deletion of the workspace")
        if existed:
            self._did(f"purged workspace {self._manager.workspace}")

    def _purge_vault(self) -> None:
        vault = self._resources.deleted_vault()
        if vault is None or vault.get("purgeProtectionEnabled"):
            return
        with suppress(MissingError):
            self._manager.post(f"{vault['id']}/purge", api_version=VAULTS)
        self._until(lambda: self._resources.deleted_vault() is None, "the purge of the vault")
        self._did(f"purged vault {self._resources.vault}")

    def _delete(self, path: str) -> None:
        """Request a deletion; a resource that does not exist is no error."""
        with suppress(MissingError):
            self._manager.delete(path)

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        if reached():
            return
        self._console.note(f"waiting for {what}")
        if not wait_until(reached, self._wait, self._poll):
            raise UserError(
                f"waited {self._wait / 60:g} minutes for {what}; check workspace"
                f" {self._manager.workspace} in the portal, and run the same command again"
            )

    def _did(self, what: str) -> None:
        self.done.append(what)
        self._console.note(what)
