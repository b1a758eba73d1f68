"""What jobs leave in blob storage: the results of runs, and the files that Azure uploads."""

import json
from datetime import datetime
from typing import Any, Final

from azure.core.exceptions import AzureError, ResourceNotFoundError

from infra.outputs import Datastore
from jobs.azure.job_records import Details, Job
from jobs.azure.storage import container, read_small, refused
from jobs.azure.workspace import Workspace
from jobs.errors import MissingError, RequestError
from jobs.spec.run_key import Attempt

RESULT: Final = "result.json"
"""The trainer writes it when a run has trained to its end, and not before."""

TRAINING: Final = ("train", "smoke", "benchmark")
"""Kinds of job that leave a run with a result."""
ARTIFACTS: Final = "workspaceartifactstore"
"""Datastore of every workspace: what jobs write below outputs/ and logs/, and their logs."""


def run_folder(run: str) -> str:
    """Of the trainer, below the container of results."""
    return f"{Attempt(run).folder}/{run}"


def trained(workspace: Workspace, job: Job, details: Details) -> bool | None:
    """Whether the run of a job that has ended has trained to its end.

    Returns:
        None for a job that trains nothing.

    Raises:
        RequestError: storage cannot be looked at from here.
    """
    if job.kind not in TRAINING or job.attempt is None:
        return None
    store = workspace.outputs.datastores.results
    blob = container(store, workspace.credential).get_blob_client(f"{run_folder(job.run)}/{RESULT}")
    try:
        written = blob.get_blob_properties().last_modified
    except ResourceNotFoundError:
        return False
    except AzureError as error:
        raise refused(error, store, workspace.outputs, workspace.who, writing=False) from error
    # One that was there before is that of a shorter run under the same key, unless the attempt says
    # itself that nothing was left to train.
    return details.status == "Completed" or _since(written, details.started or job.created)


def artifact(workspace: Workspace, job: str, name: str) -> Any:
    """A JSON file that a job wrote below outputs/.

    Args:
        workspace: of the job.
        job: its name.
        name: of the file, from outputs/ on.

    Raises:
        RequestError: it is not there, or storage cannot be looked at from here.
    """
    content = read(workspace, artifact_store(workspace), f"{artifact_folder(job)}/{name}")
    if content is None:
        raise MissingError(f"file {name} of job {job}: is not there; look at its log")
    try:
        return json.loads(content)
    except ValueError as error:
        raise RequestError(f"file {name} of job {job}: is not JSON ({error})") from error


def read(workspace: Workspace, store: Datastore, name: str) -> bytes | None:
    """A small blob of a datastore; none if it is not there.

    Raises:
        RequestError: storage cannot be looked at from here.
    """
    try:
        return read_small(container(store, workspace.credential), name)
    except AzureError as error:
        raise refused(error, store, workspace.outputs, workspace.who, writing=False) from error


def artifact_folder(job: str) -> str:
    """Where Azure uploads what a job writes, below the container of artifacts."""
    return f"ExperimentRun/dcid.{job}"


def artifact_store(workspace: Workspace) -> Datastore:
    """The workspace's own datastore, which the stack does not export as it is no place for data."""
    found = workspace.arm("GET", f"datastores/{ARTIFACTS}")["properties"]
    account = found["accountName"]
    known = workspace.outputs.datastores
    stores = (known.results, known.prepared, known.raw)
    suffix = found.get("endpoint") or "core.windows.net"
    endpoint = next(
        (store.blob_endpoint for store in stores if store.account == account),
        f"https://{account}.blob.{suffix}/",
    )
    return Datastore(ARTIFACTS, account, endpoint, found["containerName"], "read")


def _since(written: datetime, start: datetime | None) -> bool:
    # Storage tells whole seconds.
    return start is None or written >= start.replace(microsecond=0)
