"""Data sets that a job has written into the container of prepared data, registered as they are."""

from azure.core.exceptions import AzureError

from common.errors import UserError
from infra.outputs import Datastore
from jobs.assets import data_sets
from jobs.assets.data_sets import DataAsset
from jobs.azure.storage import Blob, container, listed, read_small, refused
from jobs.azure.workspace import Workspace
from jobs.errors import MissingError
from jobs.transfer.data_set import tags
from jobs.transfer.local_files import listing
from trainer.data.manifest import FILE_NAME, Manifest, parse_manifest
from trainer.errors import DataError


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
