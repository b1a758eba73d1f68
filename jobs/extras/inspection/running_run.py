"""A run whose job is running: its job, and the folder through which its ranks are asked."""

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from common.errors import UserError
from infra.outputs import Datastore
from jobs.azure.job_records import Job, Jobs
from jobs.azure.results import run_folder
from jobs.azure.storage import read_small
from jobs.azure.workspace import Workspace
from jobs.console import next_command
from jobs.following.job_states import WAITING, words
from jobs.job_kinds import trains

CHECK_SECONDS: Final = 10.0
"""Seconds between two checks whether the job still runs while its ranks are asked."""


def find_running(jobs: Jobs, name: str, *, any_kind: bool = False) -> Job:
    """Find a running job.

    Args:
        jobs: Jobs of the workspace.
        name: Key of a run, or name of a job.
        any_kind: Whether the job may be of a kind that does not train.

    Raises:
        UserError: The job is of another kind, does not run yet, or has ended.
    """
    job = jobs.find(name)
    if not trains(job.kind) and not any_kind:
        raise UserError(
            f"{job.name}: is a job of kind {job.kind or 'unknown'}, which does not train and"
            f" answers no requests; `{next_command('logs', job.name)}` prints its output"
        )
    if job.ended:
        raise UserError(
            f"{job.name}: has ended ({job.status}); `{next_command('logs', job.name)}` prints its"
            " output, with the stacks if its watchdog has ended it"
        )
    if job.status in WAITING:
        state = words(job.status, job.nodes, job.cluster)
        raise UserError(f"{job.name}: no rank runs yet ({state}); try again when it is running")
    return job


def ranks_of(job: Job) -> int:
    """Return the number of processes that a job was submitted with."""
    distribution = job.body.get("distribution") or {}
    return job.nodes * int(distribution.get("processCountPerInstance") or 1)


class RunBlobs:
    """The folder of a running job's run in the container of results."""

    def __init__(self, workspace: Workspace, job: Job) -> None:
        self._jobs, self._job, self._now = workspace.jobs, job, workspace.manager.now
        self.store: Datastore = workspace.storage.datastores.results
        self._client: ContainerClient = workspace.storage.container(self.store)
        self._folder = run_folder(job.run)
        self._checked = time.monotonic()

    def create(self, name: str) -> None:
        self._client.upload_blob(f"{self._folder}/{name}", b"", overwrite=True)

    def read(self, prefix: str, known: Collection[str]) -> Mapping[str, bytes]:
        """Return new files; see `RunFiles.read`.

        Raises:
            UserError: The job has ended, so that nothing more will come.
        """
        contents = {}
        for name in self._names(prefix):
            content = None if name in known else read_small(self._client, self._address(name))
            if content is not None:
                contents[name] = content
        if not contents and time.monotonic() - self._checked > CHECK_SECONDS:
            self._checked = time.monotonic()
            job = self._jobs.get(self._job.name)
            if job is None or job.ended:
                logs = next_command("logs", self._job.name)
                raise UserError(
                    f"{self._job.name}: has ended in the meantime"
                    f" ({job.status if job else 'deleted'}); `{logs}` prints its output"
                )
        return contents

    def remove(self, prefix: str, older_than: float = 0.0) -> None:
        for blob in self._client.list_blobs(name_starts_with=self._address(prefix)):
            age = (self._now() - blob.last_modified).total_seconds()
            # Clocks of Azure may differ, and a file may have been written just now.
            if not older_than or age >= older_than:
                with suppress(ResourceNotFoundError):
                    self._client.delete_blob(blob.name)

    def _names(self, prefix: str) -> list[str]:
        names = self._client.list_blob_names(name_starts_with=self._address(prefix))
        return [name.rpartition("/")[2] for name in names]

    def _address(self, name: str) -> str:
        return f"{self._folder}/{name}"
