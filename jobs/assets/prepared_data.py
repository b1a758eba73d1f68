"""Prepared data sets in storage: register them, read their manifests, plan a run."""

from collections.abc import Mapping

from common.errors import ConfigError, UserError
from common.text import listing
from infra.outputs import Datastore
from jobs.assets import data_sets
from jobs.assets.data_sets import DataSet
from jobs.azure.job_records import Job
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import Blob, Storage, listed, read_small
from jobs.azure.workspace import Workspace
from jobs.errors import MissingError
from jobs.leaf import OutputEntry
from jobs.options import DataOptions
from jobs.spec.job_spec import datastore_path
from trainer.config import TrainConfig
from trainer.data.manifest import FILE_NAME, Manifest, check_trainable, parse_manifest
from trainer.errors import DataError
from trainer.training.plan import EMBEDDED_EXAMPLES, Plan, make_plan


def register_prepared(
    manager: ResourceManager, storage: Storage, folder: str, name: str | None = None
) -> DataSet:
    """Register a data set in storage by its manifest, unless it is registered.

    Args:
        manager: Resource Manager of the workspace.
        storage: Storage that contains the data set.
        folder: Folder in the container of prepared data.
        name: Name to register it under; None is the last part of the folder.

    Returns:
        The registered data set.

    Raises:
        UserError: The manifest or a shard is missing, or the size of a shard is wrong.
        ConflictError: The version is registered for another folder, or the folder for another
            version.
        RequestError: The workspace or its storage refused a request.
    """
    store = storage.datastores.prepared
    with storage.errors(store):
        client = storage.container(store)
        blobs = listed(client, folder)
        content = read_small(client, f"{folder}/{FILE_NAME}")
    if content is None:
        raise MissingError(
            f"{store.container}/{folder}: {FILE_NAME} is missing, so its preparation has not"
            " completed; run it again"
        )
    manifest = _parse(content, f"{store.container}/{folder}/{FILE_NAME}")
    _compare(store, folder, manifest, blobs)
    size = sum(blob.size for blob in blobs.values())
    data_set = DataSet(
        name=name or folder.rpartition("/")[2],
        version=manifest.version,
        datastore=store.name,
        folder=folder,
        tags=data_sets.describe(len(blobs), size, manifest, content),
    )
    if not data_sets.is_registered(data_set, data_sets.versions(manager, data_set.name)):
        data_sets.register(manager, data_set)
    return data_set


def register_completed(workspace: Workspace, job: Job) -> OutputEntry:
    """Register the data set of a completed preparation; see `register_prepared` for the errors."""
    reference = register_prepared(workspace.manager, workspace.storage, job.tags["data"]).reference
    return OutputEntry(
        "asset", reference, (f"registered; to train on it, pass --data.asset {reference}",)
    )


def locate(storage: Storage, data: DataOptions, uri: str | None) -> tuple[Datastore, str]:
    """Return the datastore and the folder of a run's data set. Pure.

    Args:
        storage: Storage of the stack.
        data: Names the data set, or its folder in the container of prepared data.
        uri: URI of the registered data set; None if `data` names a folder.

    Raises:
        UserError: It is in a datastore that runs cannot read.
    """
    stores = storage.datastores
    if uri is None:
        return stores.prepared, data.path or ""
    _, _, path = datastore_path(uri).partition("/datastores/")
    datastore, _, folder = path.partition("/paths/")
    known = {store.name: store for store in (stores.prepared, stores.results)}
    if datastore not in known:
        raise UserError(
            f"--data.asset: runs cannot read the datastore of {data.asset}"
            f" ({datastore or 'unknown'}); choose a data set in prepared or results"
        )
    return known[datastore], folder


def read_manifest(storage: Storage, data: DataOptions, uri: str | None) -> Manifest:
    """Read the manifest of a run's data set; see `locate` for the arguments.

    Raises:
        UserError: The manifest is missing, invalid, or cannot be read from here.
    """
    store, folder = locate(storage, data, uri)
    name = f"{folder}/{FILE_NAME}"
    content = storage.read(store, name)
    if content is None:
        raise UserError(
            f"{data.asset or data.path}: {FILE_NAME} is missing in folder {folder} of datastore"
            f" {store.name}, so the data set is incomplete; prepare or upload it"
        )
    return _parse(content, f"{store.name}/{name}")


def plan(config: TrainConfig, ranks: int, manifest: Manifest | None) -> Plan:
    """Plan the sizes of a run: batches, steps and epochs. Pure.

    Args:
        config: Configuration of the training.
        ranks: World size of the job.
        manifest: Manifest of its data set; None for built-in or synthetic data.

    Raises:
        ConfigError: The data set is smaller than a global batch.
        UserError: The data set does not fit the configuration.
    """
    if manifest is None:
        own = EMBEDDED_EXAMPLES.get(config.data.source, config.data.synthetic_examples)
        return make_plan(config, ranks, own)
    try:
        check_trainable(manifest, config.model.classes, "the data set", config.described_task)
    except (ConfigError, DataError) as error:
        raise UserError(str(error)) from error
    return make_plan(config, ranks, manifest.splits["train"].examples)


def _parse(content: bytes, source: str) -> Manifest:
    try:
        return parse_manifest(content, source)
    except DataError as error:
        raise UserError(str(error)) from error


def _compare(store: Datastore, folder: str, manifest: Manifest, blobs: Mapping[str, Blob]) -> None:
    problems = []
    for split in manifest.splits.values():
        for shard in split.shards:
            blob = blobs.get(shard.file)
            if blob is None:
                problems.append(f"{shard.file}: missing")
            elif blob.size != shard.bytes:
                problems.append(f"{shard.file}: {blob.size} bytes instead of {shard.bytes}")
    if problems:
        raise UserError(
            f"{store.container}/{folder}: does not match its manifest:\n{listing(problems)}"
        )
