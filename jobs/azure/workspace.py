"""The clients of a stack's workspace, made once for a command, which hands each on to its users."""

from dataclasses import dataclass

from infra.outputs import PlatformOutputs
from jobs.azure.job_records import Jobs
from jobs.azure.requests import Requests
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.run_history import RunHistory
from jobs.azure.sign_in import credential
from jobs.azure.storage import Storage


@dataclass(frozen=True)
class Workspace:
    """What a command composes its work of. No module outside of `jobs.commands` takes it whole."""

    requests: Requests
    manager: ResourceManager
    jobs: Jobs
    storage: Storage


def connect(outputs: PlatformOutputs) -> Workspace:
    """The clients of a stack's workspace; nothing is asked before it is needed."""
    asks = credential()
    requests = Requests(outputs, asks)
    manager = ResourceManager(requests, outputs)
    return Workspace(
        requests=requests,
        manager=manager,
        jobs=Jobs(manager, RunHistory(requests, manager)),
        storage=Storage(outputs, asks, requests),
    )
