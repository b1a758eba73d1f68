"""The data set that a run is to read, as its manifest in blob storage tells it."""

from dataclasses import dataclass
from typing import Final

from common.errors import UserError
from infra.outputs import Datastore
from jobs.azure.asset_paths import place
from jobs.azure.results import read
from jobs.azure.workspace import Workspace, segment
from jobs.options import DataOptions
from trainer.config import TrainConfig
from trainer.data.manifest import FILE_NAME, Manifest, parse_manifest
from trainer.errors import DataError
from trainer.training.plan import Plan, make_plan

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
