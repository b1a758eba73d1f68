"""The clients of a stack's workspace, created once per command."""

from functools import cached_property
from typing import TYPE_CHECKING

from infra.outputs import PlatformOutputs
from jobs.azure.job_records import Jobs
from jobs.azure.requests import Requests
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.run_history import RunHistory
from jobs.azure.sign_in import credential

if TYPE_CHECKING:
    from jobs.azure.storage import Storage


class Workspace:
    """The clients that a command uses."""

    def __init__(self, outputs: PlatformOutputs) -> None:
        self._outputs = outputs
        self._credential = credential(outputs.tenant_id)
        self.requests = Requests(outputs, self._credential)
        self.manager = ResourceManager(self.requests, outputs)
        self.jobs = Jobs(self.manager, RunHistory(self.requests, self.manager))

    @property
    def image_registry(self) -> str | None:
        """Registry that images are pushed to; None if the stack has a cluster that builds them."""
        return None if self._outputs.identities.build else self._outputs.registry_login_server

    @cached_property
    def storage(self) -> "Storage":
        """Containers of the stack."""
        # Imported here because it takes a third of the time of a command that needs no container.
        from jobs.azure.storage import Storage  # noqa: PLC0415

        return Storage(self._outputs, self._credential, self.requests)


def connect(outputs: PlatformOutputs) -> Workspace:
    """Create the clients of a stack's workspace; they send no request until one is needed."""
    return Workspace(outputs)
