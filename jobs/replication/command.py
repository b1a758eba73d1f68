"""`python -m jobs replicate`: copy a data set to the storage of another stack, and register it.

The machine that runs the command reads from one account and writes to the other, a few blocks at a
time. Azure's own copy between accounts would have to fetch from a closed account, and would
check nothing against the manifest.
"""

import shlex
from dataclasses import dataclass
from typing import Annotated

from azure.core.exceptions import AzureError

from common.annotations import Bounds, Positional, Required
from common.errors import INTERRUPTED, ConfigError
from common.text import plural, size
from infra.outputs import Datastore, PlatformOutputs
from jobs.assets import data_sets, prepared_data
from jobs.assets.data_sets import DataSet
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console
from jobs.errors import ConflictError
from jobs.options import DataOptions
from jobs.pulumi.stack_outputs import read_outputs
from jobs.replication.blob_files import BlobFolder
from jobs.retry import StorageRetry
from jobs.spec.from_options import REPOSITORY
from jobs.transfer.blob_upload import BlobUploader
from jobs.transfer.folder_upload import FolderUpload
from jobs.transfer.progress import Progress
from trainer.data.manifest import FILE_NAME

RETRY_SECONDS = 600.0
"""Time after which a failing request to storage is no longer retried."""


@dataclass(frozen=True)
class ReplicateOptions:
    """Copy a registered data set to another stack and register the same NAME:VERSION there. Run it
    again after an interruption to copy the rest. The data pass through this machine, which must
    reach the data accounts of both stacks; each shard is checked against the manifest.
    """

    asset: Annotated[
        str, Positional("NAME:VERSION"), Required("replicate NAME:VERSION --to-stack STACK")
    ] = ""
    """Registered data set of the stack in --stack."""

    to_stack: str | None = None
    """Stack to copy it to, whose outputs Pulumi reads."""

    to_outputs: str | None = None
    """File to read the outputs of that stack from instead."""

    folder: str | None = None
    """Folder in that stack's container of prepared data; None is the same folder as here."""

    threads: Annotated[int, Bounds(at_least=1, at_most=128)] = 16
    """Number of files to copy concurrently, and of blocks of large files."""

    def check(self, program: tuple[str, ...]) -> None:  # noqa: ARG002
        """Check that the options name a data set and one other stack.

        Raises:
            ConfigError: They do not.
        """
        problems = []
        name, _, version = self.asset.partition(":")
        if not (name and version):
            problems.append(f"replicate: {self.asset!r} must be NAME:VERSION of a data set")
        if (self.to_stack is None) == (self.to_outputs is None):
            problems.append("--to-stack: give the stack to copy to, or --to-outputs, its outputs")
        if problems:
            raise ConfigError(problems)


def run(options: ReplicateOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Copy a data set and print the result.

    Returns:
        Exit status: 0 if the copy is complete and registered, 130 if it was interrupted.

    Raises:
        UserError: The data set cannot be copied, or the copy failed.
    """
    options.check(())
    console = Console(as_json=as_json)
    there = read_outputs(REPOSITORY, options.to_stack, options.to_outputs)
    target, retry = connect(there), StorageRetry(RETRY_SECONDS, console.note)
    data = _read(options, connect(outputs), retry)
    store, folder = there.datastores.prepared, options.folder or data.folder
    _check(options, data, target, store, folder)
    files, total = plural(len(data.blobs), "file"), sum(one.size for one in data.blobs.values())
    client = target.storage.container(store, connections=2 * options.threads, retry=retry)
    where, source = f"{store.account}/{folder}", f"{data.store.account}/{data.folder}"
    copy = FolderUpload(data, source, client, where, folder)
    try:
        with (
            target.storage.errors(store, writing=True),
            Progress("copying", len(data.blobs), total) as progress,
        ):
            uploader = BlobUploader(
                client,
                folder,
                retry,
                progress,
                threads=options.threads,
                overwrite=False,
                remedy="choose another --folder",
            )
            try:
                copy.run(uploader)
            except (AzureError, KeyboardInterrupt):
                console.note(
                    f"stopped: {len(copy.new):,} of {files} and {size(progress.total_moved)} were"
                    " copied; run the same command again to copy the rest"
                )
                raise
        name = options.asset.partition(":")[0]
        prepared_data.register_prepared(target.manager, target.storage, folder, name)
    except KeyboardInterrupt:
        return INTERRUPTED
    selected = ["--stack", options.to_stack or ""] if options.to_stack else []
    selected = selected or ["--outputs", options.to_outputs or ""]
    following = ["python", "-m", "jobs", "submit", "--data.asset", options.asset, *selected]
    document = {
        "asset": options.asset,
        "stack": there.stack,
        "files": len(data.blobs),
        "bytes": total,
        "new_files": len(copy.new),
        "sent_bytes": progress.total_moved,
    }
    text = (
        f"{files}, {size(total)}, complete in {where}; registered as {options.asset} in stack"
        f" {there.stack}\ncopied {plural(len(copy.new), 'file')}, {size(progress.total_moved)}\n"
        f"to look for nodes there: {shlex.join(following)}, with the options of the run"
    )
    console.answer(document, text)
    return 0


def _read(options: ReplicateOptions, source: Workspace, retry: StorageRetry) -> BlobFolder:
    """Return the data set to copy, complete and as it was registered."""
    uri = prepared_data.find(source.manager, options.asset)
    where = prepared_data.locate(source.storage, DataOptions(asset=options.asset), uri)
    blobs, _, manifest = prepared_data.read_complete(source.storage, where)
    if manifest.version != options.asset.partition(":")[2]:
        raise ConflictError(
            f"{options.asset}: its manifest has version {manifest.version}; what is registered has"
            " changed since, so upload it to another folder"
        )
    client = source.storage.container(where.datastore, connections=options.threads, retry=retry)
    return BlobFolder(source.storage, where.datastore, client, where.folder, blobs, manifest)


def _check(
    options: ReplicateOptions, data: BlobFolder, target: Workspace, store: Datastore, folder: str
) -> None:
    """Raise an error if the target is the source, or has something else."""
    if (store.account, store.container) == (data.store.account, data.store.container):
        raise ConfigError([f"--to-stack: both stacks have their training data in {store.account}"])
    # First, as a workspace that does not exist also has no data sets.
    target.manager.check_workspace()
    name, _, version = options.asset.partition(":")
    wanted = DataSet(name, version, store.name, folder, {})
    data_sets.is_registered(wanted, data_sets.versions(target.manager, name))
    found = target.storage.read(store, f"{folder}/{FILE_NAME}")
    if found not in (None, data.storage.read(data.store, f"{data.folder}/{FILE_NAME}")):
        raise ConflictError(
            f"{store.account}/{folder}: has another data set; choose another --folder"
        )
