"""`python -m jobs replicate`: copy a data set to the storage of another stack, and register it.

The machine that runs the command reads from one account and writes to the other, a few blocks at a
time. Azure's own copy between accounts would have to fetch from an account that is closed, and would
check nothing against the manifest.
"""

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from azure.core.exceptions import AzureError

from common.annotations import Bounds, Positional, Required
from common.errors import INTERRUPTED, ConfigError
from common.text import duration, plural, size
from infra.outputs import PlatformOutputs
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
from jobs.spec.job_spec import datastore_uri
from jobs.transfer.blob_upload import BlobUploader
from jobs.transfer.folder_upload import FolderUpload
from jobs.transfer.progress import Progress
from trainer.data.manifest import FILE_NAME


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

    dry_run: bool = False
    """List what would be copied without copying."""

    threads: Annotated[int, Bounds(at_least=1, at_most=128)] = 16
    """Number of files to copy concurrently, and of blocks of large files."""

    retry_timeout_minutes: Annotated[float, Bounds(at_least=0)] = 10.0
    """Minutes after which a failing request to storage is no longer retried."""

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

    @property
    def target(self) -> tuple[str, ...]:
        """Options of a command on the stack that is copied to."""
        if self.to_stack is not None:
            return ("--stack", self.to_stack)
        return ("--outputs", str(self.to_outputs))


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
    source, target = connect(outputs), connect(there)
    retry = StorageRetry(options.retry_timeout_minutes * 60, console.note)
    data = _read(options, source, retry)
    store, folder = there.datastores.prepared, options.folder or data.folder
    if (store.account, store.container) == (data.store.account, data.store.container):
        raise ConfigError(
            [f"--to-stack: {there.stack} has its training data in {store.account}, as this stack"]
        )
    _check(options, data, target, folder)
    name = options.asset.partition(":")[0]
    total = sum(blob.size for blob in data.blobs.values())
    facts = {
        "asset": options.asset,
        "stack": there.stack,
        "uri": datastore_uri(store.name, folder),
        "files": len(data.blobs),
        "bytes": total,
    }
    client = target.storage.container(store, connections=2 * options.threads, retry=retry)
    where = f"{there.stack}/{store.container}/{folder}"
    copy = FolderUpload(data, f"{data.store.account}/{data.folder}", client, where, folder)
    began = time.monotonic()
    try:
        with target.storage.errors(store, writing=True):
            if options.dry_run:
                would = {action: len(names) for action, names in copy.preview().items()}
                counts = ", ".join(f"{action} {count:,}" for action, count in would.items())
                files = plural(facts["files"], "file")
                console.answer({**facts, "would": would}, f"would {counts} of {files}: {where}")
                return 0
            with Progress("copying", len(data.blobs), total) as progress:
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
                        f"stopped: {len(copy.new):,} of {plural(len(data.blobs), 'file')} and"
                        f" {size(progress.total_moved)} were copied; run the same command again to"
                        " copy the rest"
                    )
                    raise
        prepared_data.register_prepared(target.manager, target.storage, folder, name)
    except KeyboardInterrupt:
        return INTERRUPTED
    done = {
        **facts,
        "new_files": len(copy.new),
        "sent_bytes": progress.total_moved,
        "seconds": round(time.monotonic() - began, 1),
    }
    console.answer(done, _words(done, options))
    return 0


def _read(options: ReplicateOptions, source: Workspace, retry: StorageRetry) -> BlobFolder:
    """Return the data set to copy.

    Raises:
        UserError: It is not registered, incomplete, or describes files in another place.
    """
    uri = prepared_data.find(source.manager, options.asset)
    where = prepared_data.locate(source.storage, DataOptions(asset=options.asset), uri)
    blobs, _, manifest = prepared_data.read_complete(source.storage, where)
    version = options.asset.partition(":")[2]
    if manifest.version != version:
        raise ConflictError(
            f"{options.asset}: its manifest has version {manifest.version}; what is registered has"
            " changed since, so upload it to another folder"
        )
    client = source.storage.container(where.datastore, connections=options.threads, retry=retry)
    return BlobFolder(source.storage, where.datastore, client, where.folder, blobs, manifest)


def _check(options: ReplicateOptions, data: BlobFolder, target: Workspace, folder: str) -> None:
    """Check that nothing else is at the target.

    Raises:
        ConflictError: The folder has another data set, or the data set another folder.
    """
    store = target.storage.datastores.prepared
    # First, as a workspace that does not exist also has no data sets.
    target.manager.check_workspace()
    name, _, version = options.asset.partition(":")
    wanted = DataSet(name, version, store.name, folder, {})
    data_sets.is_registered(wanted, data_sets.versions(target.manager, name))
    found = target.storage.read(store, f"{folder}/{FILE_NAME}")
    if found is not None and found != data.storage.read(data.store, f"{data.folder}/{FILE_NAME}"):
        raise ConflictError(
            f"{store.account}/{store.container}/{folder}: has another data set; choose another"
            " --folder"
        )


def _words(done: Mapping[str, Any], options: ReplicateOptions) -> str:
    following = ["python", "-m", "jobs", "submit", "--data.asset", done["asset"], *options.target]
    return (
        f"{plural(done['files'], 'file')}, {size(done['bytes'])}, complete in {done['uri']};"
        f" registered as {done['asset']} in stack {done['stack']}\n"
        f"copied {plural(done['new_files'], 'file')}, {size(done['sent_bytes'])}, in"
        f" {duration(done['seconds'])}\n"
        f"to look for nodes there: {shlex.join(following)}, with the options of the run"
    )
