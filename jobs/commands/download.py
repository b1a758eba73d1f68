"""`python -m jobs download`: what a run has left in storage, as a folder like one made here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient

from common import fields
from common.errors import ConfigError
from common.fields import Bounds
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure import results
from jobs.azure.job_records import attempts
from jobs.azure.storage import Blob, container, listed, refused
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console
from jobs.errors import MissingError
from jobs.retry import Patience
from jobs.spec.run_key import attempt_of, key_problems
from jobs.transfer.blob_download import Fetcher, Record, alone, targets
from jobs.transfer.local_files import LocalError, listing
from jobs.transfer.parallel import each
from jobs.transfer.progress import Progress, volume

INTERRUPTED: Final = 130
CHECKPOINTS: Final = "checkpoints"
"""Of a run's folder."""
JOBS_FOLDER: Final = "jobs"
"""Of the local folder: a folder each job, with its logs and outputs."""


@dataclass(frozen=True)
class DownloadOptions:
    """Download what a run has left: model, report, curves and results, and the logs and outputs of
    all its jobs. NAME is the run's key, or the name of one of its jobs. Given again, it fetches
    what is missing or has changed in storage.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    to: str | None = None
    """Folder to fill; none is runs/KEY, where the trainer's other commands look for it."""

    checkpoints: bool = False
    """The checkpoints as well, which are by far the most."""

    overwrite: bool = False
    """Replace files that were not downloaded by this, or were changed since."""

    threads: Annotated[int, Bounds(at_least=1, at_most=128)] = 8
    """Files that are read at once."""

    patience_minutes: Annotated[float, Bounds(at_least=0)] = 10.0
    """How long storage may be away before this gives up."""

    @property
    def run(self) -> str:
        """Key of the run."""
        attempt = attempt_of(self.name)
        return attempt.run if attempt else self.name

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
    """Download, and print what is there now.

    Returns:
        Exit status: 0 when all is there, 130 when it was interrupted.

    Raises:
        UserError: the run has left nothing, or not all of it could be written here.
    """
    problems = fields.problems(options) or key_problems(options.run)
    if problems:
        raise ConfigError(problems)
    workspace = connect(outputs)
    try:
        items = _items(options, workspace)
        with alone(options.folder):
            done = _download(options, items)
    except AzureError as error:
        store = outputs.datastores.results
        raise refused(error, store, outputs, workspace.who, writing=False) from error
    if done is None:
        return INTERRUPTED
    Console(as_json=as_json).answer(done, _words(done))
    return 0


def _items(options: DownloadOptions, workspace: Workspace) -> list[Item]:
    store, kept = workspace.outputs.datastores.results, results.artifact_store(workspace)
    run, jobs = options.run, [job.name for job in attempts(workspace, options.run)]
    places: list[tuple[Datastore, str, Path]] = [
        (store, results.run_folder(run), options.folder),
        *((kept, results.artifact_folder(job), options.folder / JOBS_FOLDER / job) for job in jobs),
    ]
    clients = {
        one.name: container(one, workspace.credential, connections=options.threads, retries=2)
        for one in (store, kept)
    }
    found = []
    for place, folder, local in places:
        client = clients[place.name]
        blobs = {
            name: blob for name, blob in listed(client, folder).items() if _wanted(options, name)
        }
        found += [
            Item(client, f"{folder}/{name}", blobs[name], target)
            for name, target in targets(local, blobs).items()
        ]
    if not found:
        raise MissingError(
            f"run {run}: has left nothing in container {store.container} of {store.account};"
            " `python -m jobs list` shows the runs there are"
        )
    return found


def _wanted(options: DownloadOptions, name: str) -> bool:
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        # The trainer's scratch.
        return False
    return options.checkpoints or parts[0] != CHECKPOINTS


def _download(options: DownloadOptions, items: list[Item]) -> dict[str, object] | None:
    """What was done; none if a person stopped it."""
    record = Record(options.folder)
    problems: list[str] = []
    new: list[str] = []
    size = sum(item.blob.size for item in items)
    with Progress("downloading", len(items), size) as progress:
        patience = Patience(options.patience_minutes * 60, progress.say)
        fetcher = Fetcher(patience, progress, record, overwrite=options.overwrite)

        def work(item: Item) -> None:
            try:
                if fetcher.fetch(item.client, item.address, item.blob, item.target):
                    new.append(str(item.target))
            except LocalError as error:
                problems.append(str(error))
                return
            progress.file()

        try:
            each(items, work, options.threads, patience)
        except KeyboardInterrupt:
            progress.say(
                f"stopped: {progress.total_files:,} of {len(items):,} files are there; the same"
                " command goes on"
            )
            return None
        finally:
            record.save()
    if problems:
        raise LocalError(f"{options.folder}: not all of it could be written:\n{listing(problems)}")
    return {
        "run": options.run,
        "folder": str(options.folder),
        "files": len(items),
        "bytes": size,
        "new_files": len(new),
    }


def _words(done: Mapping[str, object]) -> str:
    return (
        f"{done['folder']}: {done['files']:,} files, {volume(float(str(done['bytes'])))}, of which"
        f" {done['new_files']:,} are new"
    )
