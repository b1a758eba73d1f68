"""`python -m jobs download`: download a run's results to a folder like that of a local run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from azure.storage.blob import ContainerClient

from common.annotations import Bounds, Formerly, Positional
from common.errors import INTERRUPTED, UserError
from common.prices import Total, total
from common.text import listing, plural, size
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure import costs, results
from jobs.azure.costs import JobCosts
from jobs.azure.job_records import Job
from jobs.azure.storage import Blob, listed
from jobs.azure.workspace import Workspace, connect
from jobs.console import SHOWN, Console
from jobs.errors import MissingError
from jobs.options import SelfChecked
from jobs.retry import StorageRetry
from jobs.spec.run_key import key_problems, run_of
from jobs.transfer.blob_download import (
    BlobDownloader,
    DiskFullError,
    DownloadRecord,
    alone,
    targets,
)
from jobs.transfer.local_files import LocalError
from jobs.transfer.parallel import for_each
from jobs.transfer.progress import Progress

CHECKPOINTS: Final = "checkpoints"
"""Folder of the checkpoints in a run's folder."""
JOBS_FOLDER: Final = "jobs"
"""Folder in the local folder; contains a folder per job with its logs and outputs."""


@dataclass(frozen=True)
class DownloadOptions(SelfChecked):
    """Download the results of a run: model, report, curves and metrics, and the logs and outputs of
    all its jobs. NAME is the run's key, or the name of one of its jobs. Run it again to download
    files that are missing or have changed in storage.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of one of its jobs."""

    to: str | None = None
    """Folder to download to; None is runs/KEY, where the trainer's other commands look for it."""

    checkpoints: bool = False
    """Also download the checkpoints, which are by far the largest part."""

    overwrite: bool = False
    """Replace files that this command did not download, or that were changed since."""

    threads: Annotated[int, Bounds(at_least=1, at_most=128)] = 8
    """Number of files to download concurrently."""

    retry_timeout_minutes: Annotated[float, Bounds(at_least=0), Formerly("patience_minutes")] = 10.0
    """Minutes after which a failing request to storage is no longer retried."""

    def problems(self) -> list[str]:
        """Return why the name cannot be that of a run."""
        return key_problems(self.run)

    @property
    def run(self) -> str:
        """Key of the run."""
        return run_of(self.name)

    @property
    def folder(self) -> Path:
        return Path(self.to) if self.to is not None else Path("runs") / self.run


@dataclass(frozen=True)
class Item:
    """One file to download."""

    client: ContainerClient
    address: str
    blob: Blob
    target: Path


def run(options: DownloadOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Download a run's files, write its estimated cost with them, and print a summary.

    Returns:
        Exit status: 0 if the download is complete, 130 if it was interrupted.

    Raises:
        UserError: The run has no files in storage, or some could not be written here.
    """
    options.check(())
    workspace, console = connect(outputs), Console(as_json=as_json)
    retry = StorageRetry(options.retry_timeout_minutes * 60, console.note)
    # A run with files has usually jobs, so a single 404 is not believed.
    attempts = workspace.jobs.attempts(options.run) or workspace.jobs.attempts(options.run)
    with workspace.storage.errors(outputs.datastores.results):
        items = _items(options, workspace, attempts, retry)
        with alone(options.folder):
            done = fetch_items(options, items, console, retry)
            if done is None:
                return INTERRUPTED
            cost = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(attempts)
            summed = _write_cost(options.folder, total(cost.values()))
    spent = f"; estimated cost {summed}" if attempts else ""
    console.answer({**done, "cost": costs.document(summed)}, f"{_words(done)}{spent}")
    return 0


def _write_cost(folder: Path, summed: Total) -> Total:
    try:
        costs.write(folder, summed)
    except OSError as error:
        raise LocalError(f"{folder / costs.FILE}: cannot be written ({error})") from error
    return summed


def _items(
    options: DownloadOptions, workspace: Workspace, attempts: Sequence[Job], retry: StorageRetry
) -> list[Item]:
    storage, run = workspace.storage, options.run
    store = storage.datastores.results
    artifacts = results.artifact_store(workspace.manager, storage)
    jobs = [job.name for job in attempts]
    folders: list[tuple[Datastore, str, Path]] = [
        (store, results.run_folder(run), options.folder),
        *(
            (artifacts, results.artifact_folder(job), options.folder / JOBS_FOLDER / job)
            for job in jobs
        ),
    ]
    clients = {
        datastore.name: storage.container(datastore, connections=options.threads, retry=retry)
        for datastore in (store, artifacts)
    }
    items = []
    for datastore, folder, local in folders:
        client = clients[datastore.name]
        blobs = {
            name: blob
            for name, blob in listed(client, folder).items()
            if _is_asked_for(options, name)
        }
        items += [
            Item(client, f"{folder}/{name}", blobs[name], target)
            for name, target in targets(local, blobs).items()
        ]
    if not items:
        raise MissingError(
            f"run {run}: has no files in container {store.container} of {store.account};"
            " `python -m jobs status` shows the runs"
        )
    return items


def _is_asked_for(options: DownloadOptions, name: str) -> bool:
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        # Temporary files of the trainer.
        return False
    return options.checkpoints or parts[0] != CHECKPOINTS


def fetch_items(
    options: DownloadOptions, items: list[Item], console: Console, retry: StorageRetry
) -> dict[str, object] | None:
    """Download all items; return a summary, or None after Ctrl-C."""
    record = DownloadRecord(options.folder)
    problems: list[str] = []
    new: list[str] = []
    expected = sum(item.blob.size for item in items)
    with Progress("downloading", len(items), expected) as progress:
        downloader = BlobDownloader(progress, record, overwrite=options.overwrite)

        def work(item: Item) -> None:
            try:
                if downloader.fetch(item.client, item.address, item.blob, item.target):
                    new.append(str(item.target))
            except DiskFullError:
                raise
            except UserError as error:
                problems.append(str(error))
                return
            progress.file()

        try:
            for_each(items, work, options.threads, retry)
        except KeyboardInterrupt:
            console.note(
                f"stopped: {progress.total_files:,} of {plural(len(items), 'file')} complete;"
                " run the same command again to continue"
            )
            return None
    if problems:
        raise LocalError(
            f"{options.folder}: some files could not be downloaded:\n{listing(problems)}"
        )
    return {
        "run": options.run,
        "folder": str(options.folder),
        "files": len(items),
        "bytes": expected,
        "new_files": len(new),
    }


def _words(done: Mapping[str, Any]) -> str:
    return (
        f"{done['folder']}: {plural(done['files'], 'file')}, {size(done['bytes'])};"
        f" {done['new_files']:,} new"
    )
