"""`python -m jobs upload`: upload a folder to a container, complete or absent, and register it.

After an interruption the same command uploads the rest.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from azure.core.exceptions import AzureError

from common.annotations import Bounds, Formerly, Positional, Required
from common.errors import INTERRUPTED, ConfigError
from common.text import duration, plural, size
from infra.outputs import Datastore, PlatformOutputs
from jobs.assets import data_sets
from jobs.assets.data_sets import DataSet
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.errors import ConflictError, RequestError
from jobs.options import FOLDER, NAME, SelfChecked
from jobs.retry import StorageRetry
from jobs.spec.job_spec import datastore_uri
from jobs.transfer.blob_upload import BlobUploader
from jobs.transfer.folder_upload import FolderUpload
from jobs.transfer.local_files import LocalFolder, read_data_set
from jobs.transfer.progress import Progress


@dataclass(frozen=True)
class UploadOptions(SelfChecked):
    """Upload a folder, or one file, to a container and register it as a data set. Run it again
    after an interruption to upload the rest. FOLDER contains raw files, or prepared shards, which
    are checked against their manifest. Symbolic links are refused, hidden files are skipped.
    """

    folder: Annotated[str, Positional("FOLDER"), Required("upload FOLDER --to DATASTORE/PATH")] = ""
    """Folder or file to upload."""

    to: str = ""
    """DATASTORE/PATH: raw, prepared or results (or the name of the datastore), and a folder in it,
    such as prepared/imagenet."""

    name: str | None = None
    """Name to register the data set under; None is the last part of the path. The version is that
    of the manifest, or a hash of all files."""

    register: bool = True
    """Whether to register the data set, so that runs can refer to it as NAME:VERSION."""

    overwrite: bool = False
    """Replace existing files that differ, but never in a folder that is registered under this name,
    even if --register is False."""

    dry_run: bool = False
    """List what would be uploaded without uploading."""

    threads: Annotated[int, Bounds(at_least=1, at_most=128)] = 16
    """Number of files to upload concurrently, and of blocks of large files."""

    retry_timeout_minutes: Annotated[float, Bounds(at_least=0), Formerly("patience_minutes")] = 10.0
    """Minutes after which a failing request to storage is no longer retried."""

    def problems(self) -> list[str]:
        """Return why the path or the name is invalid."""
        problems = []
        if not self.to:
            problems.append("--to: is missing; name DATASTORE/PATH, such as prepared/imagenet")
        elif not re.fullmatch(FOLDER, self.path):
            problems.append(
                f"--to: {self.to!r} must be DATASTORE/PATH, such as prepared/imagenet; a path"
                " consists of letters, digits, any of _ . = + @ - and slashes between its parts"
            )
        elif self.register and not re.fullmatch(NAME, self.asset):
            problems.append(
                f"--name: {self.asset!r} must be letters, digits, '_' and '-', the first a letter"
                " or digit, as Azure Machine Learning requires of a data set's name"
            )
        return problems

    @property
    def datastore(self) -> str:
        return self.to.partition("/")[0]

    @property
    def path(self) -> str:
        """Folder in the container."""
        return self.to.partition("/")[2].strip("/")

    @property
    def asset(self) -> str:
        """Name of the registered data set."""
        return self.name or self.path.rpartition("/")[2]


def run(options: UploadOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Upload a folder and print the result.

    Returns:
        Exit status: 0 if the upload is complete, 130 if it was interrupted.

    Raises:
        UserError: The folder cannot be uploaded, or the upload failed.
    """
    options.check(())
    console = Console(as_json=as_json)
    store = find_datastore(outputs, options.datastore)
    data = read_data_set(Path(options.folder))
    for text in _notes(data):
        console.note(text)
    workspace = connect(outputs)
    registration = _Registration(options, store, data, workspace.manager)
    facts = {
        "uri": datastore_uri(store.name, options.path),
        "files": len(data.files),
        "bytes": data.size,
    }
    retry = StorageRetry(options.retry_timeout_minutes * 60, console.note)
    client = workspace.storage.container(store, connections=2 * options.threads, retry=retry)
    progress = Progress("uploading", len(data.files), data.size)
    uploader = BlobUploader(
        client,
        options.path,
        retry,
        progress,
        threads=options.threads,
        overwrite=options.overwrite,
        complete=registration.complete,
    )
    upload = FolderUpload(data, options.folder, options.to, uploader)
    began = time.monotonic()
    try:
        with workspace.storage.errors(store, writing=True):
            if options.dry_run:
                would = upload.preview()
                console.answer({**facts, "would": would}, _preview_words(facts, would))
                return 0
            try:
                with progress:
                    upload.run()
            except (AzureError, RequestError, KeyboardInterrupt):
                console.note(_stopped_words(facts, len(upload.new), progress.total_moved))
                raise
        asset = registration.register(data.version(upload.md5s))
    except KeyboardInterrupt:
        return INTERRUPTED
    done = {
        **facts,
        "asset": asset,
        "new_files": len(upload.new),
        "sent_bytes": progress.total_moved,
        "seconds": round(time.monotonic() - began, 1),
    }
    console.answer(done, _words(done))
    return 0


class _Registration:
    """Registration of the uploaded folder as a data set.

    Raises:
        ConflictError: The manifest's version is registered for another folder, or the folder for
            another version.
        RequestError: A request to the workspace failed.
    """

    def __init__(
        self,
        options: UploadOptions,
        store: Datastore,
        data: LocalFolder,
        manager: ResourceManager,
    ) -> None:
        self._options, self._store, self._manager = options, store, manager
        self._tags = data_sets.describe(
            len(data.files), data.size, data.manifest, data.manifest_content
        )
        self._registered: dict[str, str] = {}
        self.complete: ConflictError | None = None
        """Error to raise if the upload would change a registered folder; None if it may change."""
        if options.dry_run or not (options.register or options.overwrite):
            return
        # First, as a workspace that does not exist also has no data sets.
        manager.check_workspace()
        self._registered = data_sets.versions(manager, options.asset)
        # A lost file of the manifest's version may be uploaded again; it is the same file.
        same = None if data.manifest is None else data.manifest.version
        if same is not None and options.register:
            data_sets.is_registered(self._data_set(same), self._registered)
        version = data_sets.version_in(self._data_set("").uri, self._registered)
        if version not in (None, same):
            self.complete = data_sets.folder_taken(options.asset, str(version), options.path)

    def register(self, version: str) -> str | None:
        """Register the folder unless it is registered; return NAME:VERSION, or None without
        --register.
        """
        if not self._options.register:
            return None
        data_set = self._data_set(version)
        if not data_sets.is_registered(data_set, self._registered):
            data_sets.register(self._manager, data_set)
        return data_set.reference

    def _data_set(self, version: str) -> DataSet:
        options = self._options
        return DataSet(options.asset, version, self._store.name, options.path, self._tags)


def find_datastore(outputs: PlatformOutputs, name: str) -> Datastore:
    """Find a datastore by its purpose or its name.

    Raises:
        ConfigError: There is no such datastore.
    """
    stores = outputs.datastores
    known = {"raw": stores.raw, "prepared": stores.prepared, "results": stores.results}
    known |= {store.name: store for store in known.values()}
    if name not in known:
        raise ConfigError([f"--to: unknown datastore {name!r}; choose from {', '.join(known)}"])
    return known[name]


def _notes(data: LocalFolder) -> list[str]:
    notes = []
    for what, names in (("hidden file", data.hidden), ("empty folder", data.empty)):
        if names:
            notes.append(f"skipped: {plural(len(names), what)}, such as {names[0]}")
    if data.manifest is None:
        notes.append("no manifest.json: uploading raw files, verified only by their own hashes")
    return notes


def _preview_words(facts: Mapping[str, Any], would: Mapping[str, list[str]]) -> str:
    lines = [f"{action:8} {name}" for action, names in would.items() for name in names]
    counts = ", ".join(f"{action} {len(names):,}" for action, names in would.items() if names)
    files = plural(facts["files"], "file")
    return "\n".join([*lines, f"would {counts} of {files}: {facts['uri']}"])


def _stopped_words(facts: Mapping[str, Any], files: int, sent: int) -> str:
    return (
        f"stopped: {files:,} of {plural(facts['files'], 'file')} and {size(sent)} were sent; run"
        " the same command again to send the rest"
    )


def _words(done: Mapping[str, Any]) -> str:
    asset = f"; registered as {done['asset']}" if done["asset"] else ""
    return (
        f"{plural(done['files'], 'file')}, {size(done['bytes'])}, complete in"
        f" {done['uri']}{asset}\n"
        f"sent {plural(done['new_files'], 'file')}, {size(done['sent_bytes'])}, in"
        f" {duration(done['seconds'])}"
    )
