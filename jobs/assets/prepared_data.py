"""Data sets that a job has written into the container of prepared data, registered as they are."""

from dataclasses import dataclass
from typing import Final

from azure.core.exceptions import AzureError

from common.errors import UserError
from infra.outputs import Datastore
from jobs.assets import data_sets
from jobs.assets.data_sets import DataAsset
from jobs.azure.results import read
from jobs.azure.storage import Blob, container, listed, read_small, refused
from jobs.azure.workspace import Workspace, segment
from jobs.errors import MissingError
from jobs.options import DataOptions
from jobs.spec.job_spec import place
from jobs.transfer.folder_upload import tags
from jobs.transfer.local_files import listing
from trainer.config import TrainConfig
from trainer.data.manifest import FILE_NAME, Manifest, parse_manifest
from trainer.errors import DataError
from trainer.training.plan import Plan, make_plan


def register_prepared(workspace: Workspace, folder: str, name: str | None = None) -> DataAsset:
    """Register a data set that is in storage already, by its manifest; the same again is fine.

    Args:
        workspace: that knows it then.
        folder: in the container of prepared data.
        name: what it is called; none is the last part of the folder.

    Raises:
        UserError: there is no manifest, or shards that it names are not there or of another size.
        ConflictError: the version is another folder's, or the folder another version's.
        RequestError: the workspace or its storage refuses.
    """
    store = workspace.outputs.datastores.prepared
    there, content = _look(workspace, store, folder)
    try:
        manifest = parse_manifest(content, f"{store.container}/{folder}/{FILE_NAME}")
    except DataError as error:
        raise UserError(str(error)) from error
    _compare(store, folder, manifest, there)
    asset = DataAsset(
        name=name or folder.rpartition("/")[2],
        version=manifest.version,
        datastore=store.name,
        folder=folder,
        tags=tags(len(there), sum(blob.size for blob in there.values()), manifest, content),
    )
    if not data_sets.check(asset, data_sets.versions(workspace, asset.name)):
        data_sets.register(workspace, asset)
    return asset


def _look(workspace: Workspace, store: Datastore, folder: str) -> tuple[dict[str, Blob], bytes]:
    client = container(store, workspace.credential)
    try:
        there = listed(client, folder)
        content = read_small(client, f"{folder}/{FILE_NAME}")
    except AzureError as error:
        raise refused(error, store, workspace.outputs, workspace.who, writing=False) from error
    if content is None:
        raise MissingError(
            f"{store.container}/{folder}: has no {FILE_NAME}, so no preparation has written it to"
            " its end"
        )
    return there, content


def _compare(store: Datastore, folder: str, manifest: Manifest, there: dict[str, Blob]) -> None:
    wrong = []
    for split in manifest.splits.values():
        for shard in split.shards:
            blob = there.get(shard.file)
            if blob is None:
                wrong.append(f"{shard.file}: missing")
            elif blob.size != shard.bytes:
                wrong.append(f"{shard.file}: {blob.size} bytes, not {shard.bytes}")
    if wrong:
        raise UserError(f"{store.container}/{folder}: does not fit its manifest:\n{listing(wrong)}")


DIGITS_IMAGES: Final = 1437
"""To train on, of scikit-learn's digits, which a job writes by itself."""


@dataclass(frozen=True)
class Place:
    """A folder of a datastore."""

    datastore: Datastore
    folder: str


def find(workspace: Workspace, data: DataOptions) -> Place:
    """Where a data set is.

    Raises:
        RequestError: it is not registered.
        UserError: it is in a datastore that the stack does not export.
    """
    stores = workspace.outputs.datastores
    if data.asset is None:
        return Place(stores.prepared, data.path or "")
    name, _, version = data.asset.partition(":")
    found = workspace.arm("GET", f"data/{segment(name)}/versions/{segment(version)}")
    _, _, rest = place(found["properties"]["dataUri"]).partition("/datastores/")
    store, _, folder = rest.partition("/paths/")
    known = {one.name: one for one in (stores.raw, stores.prepared, stores.results)}
    if store not in known:
        raise UserError(
            f"--data.asset: {data.asset} is in the datastore {store or 'of another kind'}, which"
            f" the stack {workspace.outputs.stack} does not export"
        )
    return Place(known[store], folder)


def manifest(workspace: Workspace, data: DataOptions) -> Manifest:
    """What a data set's manifest says.

    Raises:
        UserError: there is none, it is none, or it cannot be read from here.
    """
    where = find(workspace, data)
    name = f"{where.folder}/{FILE_NAME}"
    content = read(workspace, where.datastore, name)
    if content is None:
        raise UserError(
            f"{data.asset or data.path}: there is no {FILE_NAME} in {where.folder} of the datastore"
            f" {where.datastore.name}, so no complete data set; prepare or upload it"
        )
    try:
        return parse_manifest(content, f"{where.datastore.name}/{name}")
    except DataError as error:
        raise UserError(str(error)) from error


def plan(config: TrainConfig, ranks: int, found: Manifest | None) -> Plan:
    """The numbers of a run. Pure.

    Args:
        config: what to train.
        ranks: processes of the job.
        found: manifest of its data set; none if it makes its own data.

    Raises:
        ConfigError: the data set is smaller than a step.
        UserError: it does not fit the configuration.
    """
    if found is None:
        own = DIGITS_IMAGES if config.data.source == "digits" else config.data.synthetic_examples
        return make_plan(config, ranks, own)
    empty = [
        split
        for split in ("train", "validation")
        if split not in found.splits or not found.splits[split].examples
    ]
    if empty:
        raise UserError(f"the data set has no images in the split {empty[0]!r}; prepare it again")
    classes = len(found.classes)
    if config.model.classes not in (None, classes):
        raise UserError(
            f"--model.classes: {config.model.classes}, but the data set has {classes} classes"
        )
    return make_plan(config, ranks, found.splits["train"].examples)
