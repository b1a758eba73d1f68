"""`python -m jobs upload`: a folder into a container, complete or absent, and registered.

The same command after an interruption sends the rest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from azure.core.exceptions import AzureError

from common import fields
from common.errors import ConfigError
from common.fields import Bounds
from infra.outputs import Datastore, PlatformOutputs
from jobs.azure.storage import refused
from jobs.azure.workspace import connect
from jobs.console import Console
from jobs.options import FOLDER, NAME
from jobs.transfer.folder_upload import DataSet, Upload, read_data_set
from jobs.transfer.progress import Progress, span, volume

INTERRUPTED: Final = 130


@dataclass(frozen=True)
class UploadOptions:
    """Send a folder, or one file, into a container, complete or absent, and register it as a data
    set. Given again after an interruption, it sends the rest. FOLDER holds raw files, or prepared
    shards, which are compared with their manifest; links in it are refused, hidden files left out.
    """

    folder: str = ""
    """What is sent; the first argument."""

    to: str = ""
    """DATASTORE/PATH: raw, prepared or results, or the datastore's own name, and a folder in it,
    such as prepared/imagenet."""

    name: str | None = None
    """What the data set is registered as; none is the last part of the path. Its version is the
    manifest's, or a hash of all files."""

    register: bool = True
    """Whether to register it, so that runs can refer to it by NAME:VERSION."""

    overwrite: bool = False
    """Replace files that are there with other content. A registered folder is never changed."""

    dry_run: bool = False
    """List what would be sent, and send nothing."""

    threads: Annotated[int, Bounds(at_least=1, at_most=128)] = 16
    """Files, and as many blocks of large files, that are sent at once."""

    patience_minutes: Annotated[float, Bounds(at_least=0)] = 10.0
    """How long storage may be away before this gives up."""

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
    """Upload, and print what became of it.

    Returns:
        Exit status: 0 when all is there, 130 when it was interrupted.

    Raises:
        UserError: it cannot be sent, or was not.
    """
    problems = fields.problems(options) or _problems(options)
    if problems:
        raise ConfigError(problems)
    console = Console(as_json=as_json)
    store = find_datastore(outputs, options.datastore)
    data = read_data_set(Path(options.folder))
    for text in _notes(data):
        console.note(text)
    workspace = connect(outputs)
    with Progress("uploading", len(data.wanted), data.folder.bytes) as progress:
        upload = Upload(options, store, data, workspace, progress)
        try:
            done = upload.preview() if options.dry_run else upload.run()
        except AzureError as error:
            upload.say_how_far()
            raise refused(error, store, outputs, workspace.who, writing=True) from error
        except KeyboardInterrupt:
            upload.say_how_far()
            return INTERRUPTED
    console.answer(done, _words(done))
    return 0


def find_datastore(outputs: PlatformOutputs, name: str) -> Datastore:
    """A datastore by what it holds, or by its own name.

    Raises:
        ConfigError: there is none.
    """
    stores = outputs.datastores
    known = {"raw": stores.raw, "prepared": stores.prepared, "results": stores.results}
    known |= {store.name: store for store in known.values()}
    if name not in known:
        raise ConfigError([f"--to: {name!r} is no datastore; there are {', '.join(known)}"])
    return known[name]


def _problems(options: UploadOptions) -> list[str]:
    found = []
    if not options.folder:
        found.append("name the folder to upload: python -m jobs upload FOLDER --to DATASTORE/PATH")
    if not re.fullmatch(FOLDER, options.path):
        found.append(
            f"--to: {options.to!r} must be DATASTORE/PATH, such as prepared/imagenet; a path is of"
            " letters, digits and any of _ . = + @ - with a slash between its parts"
        )
    elif options.register and not re.fullmatch(NAME, options.asset):
        found.append(
            f"--name: {options.asset!r} must be letters, digits, '_' and '-', the first a letter or"
            " digit, as it names a data set of Azure Machine Learning"
        )
    return found


def _notes(data: DataSet) -> list[str]:
    found = []
    for what, names in (("hidden", data.folder.hidden), ("empty folders", data.folder.empty)):
        if names:
            found.append(f"left out: {len(names)} {what}, such as {names[0]}")
    if data.manifest is None:
        found.append("no manifest.json: sent as raw files, which only their own hashes vouch for")
    return found


def _words(done: Mapping[str, object]) -> str:
    would = done.get("would")
    if isinstance(would, dict):
        lines = [f"{verb:8} {name}" for verb, names in would.items() for name in names]
        counts = ", ".join(f"{verb} {len(names):,}" for verb, names in would.items() if names)
        return "\n".join([*lines, f"would {counts} of {done['files']} files: {done['uri']}"])
    size, sent = float(str(done["bytes"])), float(str(done["sent_bytes"]))
    asset = f"; registered as {done['asset']}" if done["asset"] else ""
    return (
        f"{done['files']:,} files, {volume(size)}, are complete in {done['uri']}{asset}\n"
        f"sent {done['new_files']:,} files, {volume(sent)}, in"
        f" {span(float(str(done['seconds'])))}"
    )
