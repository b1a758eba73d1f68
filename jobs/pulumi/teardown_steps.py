"""The steps of a teardown.

Each step first checks what still exists. The workspace is purged before Pulumi deletes it: a
workspace that is only deleted, as by Pulumi, keeps its name for 14 days.
"""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from common import text
from common.errors import UserError
from common.program import load
from common.text import plural
from common.waiting import wait_until
from jobs.azure.job_records import Jobs
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.billed import BILLED
from jobs.console import Console
from jobs.errors import AccessError, MissingError, PlatformReadError, RequestError
from jobs.pulumi.cli import Pulumi, UpdateFailedError
from jobs.pulumi.leftover_resources import VAULTS, AzureResources, Leftover, attached
from jobs.pulumi.retry_policy import LONGEST_PAUSE, advice, waiting
from jobs.pulumi.state import StackResource

FIRST_PAUSE = 10.0
"""Seconds before Pulumi is run again after a refusal that passes; it doubles each time."""
DIAGNOSTICS: Final = "2021-05-01-preview"
"""API version of diagnostic settings."""
_DIAGNOSTICS: Final = {
    f"azure-native:{module}:DiagnosticSetting" for module in ("monitor", "insights")
}
_SETTINGS: Final = "/providers/Microsoft.Insights/diagnosticSettings"
"""End of the ids of a resource's diagnostic settings."""


@dataclass
class Teardown:
    """The steps, in their order."""

    manager: ResourceManager
    jobs: Jobs
    resources: AzureResources
    pulumi: Pulumi
    console: Console
    wait: float
    """Longest time for each step, in seconds."""
    poll: float
    """Seconds between two checks of the progress."""
    done: list[str] = field(default_factory=list)
    """The deletions that are done, in words."""

    def run(self, stack_resources: Sequence[StackResource]) -> None:
        """Delete everything that still exists.

        Raises:
            UserError: A step failed; the steps before it are done.
        """
        self.delete_compute()
        self._delete_diagnostics(stack_resources)
        self._purge_workspace()
        if stack_resources:
            self.console.note("running pulumi destroy for the rest of the stack")
            self._destroy()
            self.did("destroyed the stack's resources")
        self._purge_vault()

    def delete_compute(self) -> None:
        """Delete the compute, which costs most and holds no data: endpoints, jobs, clusters.

        Raises:
            UserError: A step failed; the steps before it are done.
        """
        if self.resources.has_workspace():
            # The nodes of clusters are last: the others cost money without jobs.
            for row in reversed(BILLED):
                load(row.delete)(self)

    def leftovers_of_state(self) -> list[Leftover]:
        """List the resources that are still in Pulumi's state, or say why it cannot be read."""
        try:
            resources = self.pulumi.resources()
        except PlatformReadError as error:
            return [Leftover("Pulumi's state", f"cannot be read: {error}")]
        return [
            Leftover(
                f"{resource.kind} {resource.name}",
                "is in Pulumi's state" + ", protected" * resource.protected,
            )
            for resource in resources
        ]

    def delete_clusters(self, names: Collection[str] | None = None) -> None:
        """Delete clusters with their nodes, and wait until they are deleted. Compute that others
        have attached to the workspace is detached instead, which deletes nothing of theirs.

        Args:
            names: Names of the clusters; None is all compute of the workspace.

        Raises:
            UserError: Azure refused the deletion, or it timed out.
        """

        def computes() -> list[Any]:
            try:
                items = list(self.manager.items("computes"))
            except MissingError:
                return []
            return [item for item in items if names is None or item["name"] in names]

        known = computes()
        others = {other.name: str(other) for other in attached(known)}
        deleted = [compute["name"] for compute in known if compute["name"] not in others]
        for compute in known:
            if (compute["properties"].get("provisioningState") or "") != "Deleting":
                action = "Detach" if compute["name"] in others else "Delete"
                path = f"computes/{segment(compute['name'])}?underlyingResourceAction={action}"
                self.manager.delete(path)
        self._until(lambda: not computes(), "the deletion of the clusters")
        if others:
            self.did(f"detached {', '.join(others.values())}")
        if deleted:
            which = plural(len(deleted), "cluster") if names is None else ", ".join(names)
            self.did(f"deleted {which}")

    def cancel_jobs(self) -> None:
        """Cancel all jobs, and wait until they have ended.

        Raises:
            UserError: Azure refused to cancel a job, or this timed out.
        """
        asked: set[str] = set()

        def ended() -> bool:
            names = self.jobs.running()
            for name in names:
                # A supervised run may have been submitted again in the meantime.
                if name not in asked:
                    self._cancel(name)
                    asked.add(name)
            return not names

        self._until(ended, "the jobs to end")
        if asked:
            self.did(f"cancelled {plural(len(asked), 'job')}")

    def _cancel(self, name: str) -> None:
        try:
            self.jobs.cancel(name)
        except MissingError:
            return
        except RequestError:
            # Azure refuses to cancel a job that has ended since it was listed.
            if name in self.jobs.running():
                raise

    def _delete_diagnostics(self, stack_resources: Sequence[StackResource]) -> None:
        """Delete the diagnostic settings that would outlive their resources, as a new resource of
        the same name would have them again: those of the workspace, which is purged before Pulumi
        comes to them, and those that others have added to the stack's resources.
        """
        declared = {
            resource.id.lower() for resource in stack_resources if resource.kind in _DIAGNOSTICS
        }
        workspace = self.manager.workspace_id.lower()
        own, others = [], []
        for place in sorted(
            {workspace, *(setting.partition(_SETTINGS.lower())[0] for setting in declared)}
        ):
            with suppress(MissingError, AccessError):
                for setting in self.manager.items(f"{place}{_SETTINGS}", DIAGNOSTICS):
                    id_ = str(setting["id"])
                    if id_.lower() not in declared:
                        others.append(id_)
                    elif place == workspace:
                        own.append(id_)
        for setting in (*own, *others):
            self.manager.delete(setting, DIAGNOSTICS)
        if own:
            self.did(f"deleted {plural(len(own), 'diagnostic setting')} of the workspace")
        for setting in others:
            place, _, name = setting.lower().partition(f"{_SETTINGS.lower()}/")
            self.did(
                f"deleted diagnostic setting {name} of {place.rpartition('/')[2]}, which the stack"
                " has not declared"
            )

    def _destroy(self) -> None:
        """Let Pulumi delete the stack's resources, and repeat it within the longest time to wait
        while Azure refuses deletions that it accepts later.

        Raises:
            UserError: Some resources could not be deleted.
        """
        deadline, pause = time.monotonic() + self.wait, max(self.poll, FIRST_PAUSE)
        while True:
            try:
                self.pulumi.destroy()
            except UpdateFailedError as error:
                reasons = waiting(error.failed)
                refused = text.listing([f"{name}: {why}" for name, why in reasons.items()])
                if not reasons:
                    raise UserError(f"{error}{advice(error.failed)}") from error
                if time.monotonic() + pause > deadline:
                    raise UserError(
                        f"{error}\nAzure has refused this for {self.wait / 60:g} minutes:\n"
                        f"{refused}\nrun the same command again to continue to wait"
                    ) from error
                self.console.note(
                    f"Azure refuses this for now:\n{refused}\nThe deletion continues in"
                    f" {pause:.0f} s"
                )
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                return

    def _purge_workspace(self) -> None:
        existed = self.resources.has_workspace()
        # Even if it is already soft-deleted, which only this request can reveal.
        self.manager.delete(f"{self.manager.workspace_id}?forceToPurge=true")
        self._until(lambda: not self.resources.has_workspace(), "the deletion of the workspace")
        if existed:
            self.did(f"purged workspace {self.manager.workspace}")

    def _purge_vault(self) -> None:
        name = self.resources.vault
        try:
            vault = self.resources.deleted_vault()
            if vault is None or vault.get("purgeProtectionEnabled"):
                return
            with suppress(MissingError):
                self.manager.post(f"{vault['id']}/purge", api_version=VAULTS)
            self._until(lambda: self.resources.deleted_vault() is None, "the purge of the vault")
        except AccessError as error:
            # Roles on the resource group do not suffice; leftovers are listed at the end.
            self.console.note(f"vault {name} is not purged: {str(error).splitlines()[0]}")
            return
        self.did(f"purged vault {name}")

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        if reached():
            return
        self.console.note(f"waiting for {what}")
        if not wait_until(reached, self.wait, self.poll):
            raise UserError(
                f"waited {self.wait / 60:g} minutes for {what}; check workspace"
                f" {self.manager.workspace} in the portal, and run the same command again"
            )

    def did(self, what: str) -> None:
        """Report a deletion that is done."""
        self.done.append(what)
        self.console.note(what)


def delete_nodes(teardown: Teardown) -> None:
    """Cancel the jobs of a workspace, and delete its clusters.

    Raises:
        UserError: One of the two failed.
    """
    teardown.cancel_jobs()
    teardown.delete_clusters()
