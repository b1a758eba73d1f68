"""What jobs leave in blob storage: the results of runs, and the files that Azure uploads."""

import json
from datetime import datetime
from typing import Any, Final

from azure.core.exceptions import ResourceNotFoundError

from infra.outputs import Datastore
from jobs.azure.job_records import Details, Job
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import Storage
from jobs.errors import MissingError, RequestError
from jobs.spec.run_key import RunAttempt

RESULT: Final = "result.json"
"""The trainer writes it when a run has trained to its end, and not before."""

TRAINING: Final = ("train", "smoke", "benchmark")
"""Kinds of job that leave a run with a result."""
ARTIFACTS: Final = "workspaceartifactstore"
"""Datastore of every workspace: what jobs write below outputs/ and logs/, and their logs."""


def run_folder(run: str) -> str:
    """The trainer's folder of a run, below the container of results."""
    return f"{RunAttempt(run).folder}/{run}"


def is_trained(storage: Storage, job: Job, details: Details) -> bool:
    """Whether the run of a training that has ended has trained to its end.

    Raises:
        RequestError: storage cannot be looked at from here.
    """
    store = storage.datastores.results
    with storage.errors(store):
        blob = storage.container(store).get_blob_client(f"{run_folder(job.run)}/{RESULT}")
        try:
            written = blob.get_blob_properties().last_modified
        except ResourceNotFoundError:
            return False
    # One that was there before is that of a shorter run under the same key, unless the attempt says
    # itself that nothing was left to train.
    return details.status == "Completed" or _is_since(written, details.started or job.created)


def read_artifact(manager: ResourceManager, storage: Storage, job: str, name: str) -> Any:
    """A JSON file that a job wrote below outputs/.

    Args:
        manager: of the job's workspace.
        storage: of the workspace.
        job: its name.
        name: of the file, from outputs/ on.

    Raises:
        RequestError: it is not there, or storage cannot be looked at from here.
    """
    store = artifact_store(manager, storage)
    content = storage.read(store, f"{artifact_folder(job)}/{name}")
    if content is None:
        raise MissingError(f"file {name} of job {job}: is not there; look at its log")
    try:
        return json.loads(content)
    except ValueError as error:
        raise RequestError(f"file {name} of job {job}: is not JSON ({error})") from error


def artifact_folder(job: str) -> str:
    """Where Azure uploads what a job writes, below the container of artifacts."""
    return f"ExperimentRun/dcid.{job}"


def artifact_store(manager: ResourceManager, storage: Storage) -> Datastore:
    """The workspace's own datastore, which the stack does not export as it is no place for data."""
    properties = manager.get(f"datastores/{ARTIFACTS}")["properties"]
    account = properties["accountName"]
    known = storage.datastores
    suffix = properties.get("endpoint") or "core.windows.net"
    endpoint = next(
        (
            store.blob_endpoint
            for store in (known.results, known.prepared, known.raw)
            if store.account == account
        ),
        f"https://{account}.blob.{suffix}/",
    )
    return Datastore(ARTIFACTS, account, endpoint, properties["containerName"], "read")


def _is_since(written: datetime, start: datetime | None) -> bool:
    # Storage tells whole seconds.
    return start is None or written >= start.replace(microsecond=0)
