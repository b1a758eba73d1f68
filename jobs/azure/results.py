"""Results of jobs in blob storage: the folders of runs, and the files that Azure uploads."""

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
"""File that the trainer writes once a run has completed."""
EVENTS: Final = "metrics.jsonl"
"""File to which the trainer adds events during a run, and one at its end."""
ARTIFACTS: Final = "workspaceartifactstore"
"""Datastore of every workspace with the jobs' logs and their files in outputs/ and logs/."""


def run_folder(run: str) -> str:
    """Return the folder of a run in the container of results."""
    return f"{RunAttempt(run).folder}/{run}"


def read_events(storage: Storage, run: str) -> list[dict[str, Any]]:
    """Read the events of a run so far, from its metrics.jsonl; empty if it has written none. A line
    that a killed writer left half is skipped.

    Raises:
        RequestError: Storage cannot be read from here.
    """
    store = storage.datastores.results
    content = storage.read(store, f"{run_folder(run)}/{EVENTS}") or b""
    events = []
    for line in content.decode(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
    return events


def silent_seconds(storage: Storage, run: str, now: datetime) -> float | None:
    """Return how long ago a run wrote its last event, in seconds: if its program has ended, about
    that time. None if it has written none, or storage cannot be read from here.
    """
    store = storage.datastores.results
    blob = storage.container(store).get_blob_client(f"{run_folder(run)}/{EVENTS}")
    try:
        with storage.errors(store):
            written = blob.get_blob_properties().last_modified
    except RequestError:
        return None
    return max((now - written).total_seconds(), 0.0)


def is_trained(storage: Storage, job: Job, details: Details) -> bool:
    """Whether the run of a training job that has ended has completed.

    Raises:
        RequestError: Storage cannot be read from here.
    """
    store = storage.datastores.results
    with storage.errors(store):
        blob = storage.container(store).get_blob_client(f"{run_folder(job.run)}/{RESULT}")
        try:
            written = blob.get_blob_properties().last_modified
        except ResourceNotFoundError:
            return False
    # An older result belongs to a shorter run under the same key, unless the attempt itself
    # completed because nothing was left to train.
    return details.status == "Completed" or _is_since(written, details.started or job.created)


def read_artifact(manager: ResourceManager, storage: Storage, job: str, name: str) -> Any:
    """Read a JSON file that a job wrote to outputs/.

    Raises:
        RequestError: The file does not exist, or storage cannot be read from here.
    """
    store = artifact_store(manager, storage)
    content = storage.read(store, f"{artifact_folder(job)}/{name}")
    if content is None:
        raise MissingError(f"file {name} of job {job}: does not exist; check the job's log")
    try:
        value = json.loads(content)
    except ValueError as error:
        raise RequestError(f"file {name} of job {job}: is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise RequestError(f"file {name} of job {job}: is not a JSON object")
    return value


def artifact_folder(job: str) -> str:
    """Return the folder in the container of artifacts that Azure uploads a job's files to."""
    return f"ExperimentRun/dcid.{job}"


def artifact_store(manager: ResourceManager, storage: Storage) -> Datastore:
    """Look up the workspace's artifact datastore, which is not among the stack's outputs."""
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
    # Storage reports whole seconds.
    return start is None or written >= start.replace(microsecond=0)
