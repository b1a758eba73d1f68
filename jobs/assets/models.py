"""Registered models: each version is a copy of an export, as the run may export again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from common.errors import UserError
from common.text import listing
from common.waiting import wait_until
from infra.outputs import MODELS_FOLDER, Datastore
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import Blob, listed
from jobs.console import next_command
from jobs.errors import ConflictError, MissingError, SpecError
from jobs.spec.job_spec import datastore_path

EXPORT: Final = "export"
"""Property of a registered model with the hash of its export's facts file."""
COPY_SECONDS: Final = 600.0
"""Timeout in seconds for copying a file; a copy within one account usually completes at once."""
_POLL_SECONDS: Final = 0.5


@dataclass(frozen=True)
class Model:
    """A model version to register."""

    name: str
    version: str
    uri: str
    """URI of the version's folder."""
    description: str
    tags: Mapping[str, str]
    """Tags to search by."""
    properties: Mapping[str, str]
    """Properties, which cannot change after the registration."""

    @property
    def reference(self) -> str:
        """NAME:VERSION."""
        return f"{self.name}:{self.version}"

    @property
    def folder(self) -> str:
        """Folder of the version in the container of results."""
        return folder_of(self.name, self.version)


def folder_of(name: str, version: str) -> str:
    """Return the folder of a version in the container of results."""
    return f"{MODELS_FOLDER}/{name}/{version}"


def is_registered(manager: ResourceManager, model: Model) -> bool:
    """Whether the version is registered.

    Raises:
        ConflictError: The version is registered for another folder, or an older export of the run.
    """
    version = manager.find(_path(model))
    if version is None:
        manager.check_workspace()
        return False
    registered = version["properties"]
    export = (registered.get("properties") or {}).get(EXPORT)
    same_folder = datastore_path(str(registered["modelUri"])) == datastore_path(model.uri)
    if not same_folder or export != model.properties[EXPORT]:
        raise ConflictError(
            f"model {model.reference}: is already registered from an earlier export of the run, and"
            " a version cannot change; register it under another --model"
        )
    return True


def locate(manager: ResourceManager, store: Datastore, name: str, version: str) -> str:
    """Return the folder of a registered version in the container of results.

    Raises:
        MissingError: It is not registered.
        SpecError: It lies elsewhere, where neither endpoints nor jobs may read it.
    """
    try:
        model = manager.get(f"models/{segment(name)}/versions/{segment(version)}")
    except MissingError as error:
        manager.check_workspace()
        raise MissingError(
            f"model {name}:{version}: is not registered; `{next_command('register', 'RUN')}`"
            " registers the model of a run",
            error.status,
        ) from error
    path = datastore_path(str(model["properties"]["modelUri"]))
    start = f"/datastores/{store.name}/paths/"
    if not path.startswith(start):
        raise SpecError(
            [
                f"MODEL: {name}:{version} lies outside datastore {store.name}, which is the only"
                " one that endpoints and jobs may read models from; register the run with `python"
                " -m jobs register`"
            ]
        )
    return path.removeprefix(start)


def read_properties(manager: ResourceManager, name: str, version: str) -> dict[str, str]:
    """Return the properties of a registered version, which cannot change.

    Raises:
        MissingError: It is not registered.
    """
    model = manager.get(f"models/{segment(name)}/versions/{segment(version)}")
    return dict(model["properties"].get("properties") or {})


def register(manager: ResourceManager, model: Model) -> None:
    """Register a version whose files have been copied to its folder.

    Raises:
        RequestError: Azure refused the request.
    """
    properties = {
        "modelType": "custom_model",
        "modelUri": model.uri,
        "description": model.description,
        "tags": dict(model.tags),
        "properties": dict(model.properties),
        "isAnonymous": False,
    }
    manager.put(_path(model), {"properties": properties})


def copy(client: ContainerClient, source: str, target: str) -> int:
    """Copy a folder of a container within storage.

    Args:
        client: Client of the container.
        source: Folder to copy.
        target: Folder to copy to; other files in it are deleted.

    Returns:
        Number of files.

    Raises:
        UserError: The source changed during the copy, or the copy differs from it.
        AzureError: The container refused a request.
    """
    blobs = listed(client, source)
    copies = listed(client, target)
    for name in copies.keys() - blobs.keys():
        # Left by an interrupted registration of an earlier export.
        client.delete_blob(f"{target}/{name}")
    try:
        for name, blob in blobs.items():
            if blob.md5 is None or difference(blob, copies.get(name)):
                _copy_one(client, f"{source}/{name}", blob, f"{target}/{name}")
    except (ResourceModifiedError, ResourceNotFoundError) as error:
        raise _changing(source) from error
    if {name: blob.etag for name, blob in listed(client, source).items()} != {
        name: blob.etag for name, blob in blobs.items()
    }:
        raise _changing(source)
    check_copy(target, blobs, listed(client, target))
    return len(blobs)


def check_copy(target: str, blobs: Mapping[str, Blob], copies: Mapping[str, Blob]) -> None:
    """Compare a copy with its source. Pure.

    Raises:
        UserError: Names, sizes or hashes differ.
    """
    problems = [f"{name}: unexpected file" for name in sorted(copies.keys() - blobs.keys())]
    for name, blob in sorted(blobs.items()):
        why = difference(blob, copies.get(name))
        if why:
            problems.append(f"{name}: {why}")
    if problems:
        raise UserError(f"{target}: is not a copy of the export; try again:\n{listing(problems)}")


def difference(blob: Blob, copied: Blob | None) -> str | None:
    """Return how a copy differs from its blob, or None if it does not. Pure."""
    if copied is None:
        return "missing"
    if copied.size != blob.size:
        return f"{copied.size} bytes instead of {blob.size}"
    if copied.md5 != blob.md5:
        return "its MD5 differs"
    return None


def _copy_one(client: ContainerClient, source: str, blob: Blob, target: str) -> None:
    copied = client.get_blob_client(target)
    started = copied.start_copy_from_url(
        client.get_blob_client(source).url,
        source_etag=blob.etag,
        source_match_condition=MatchConditions.IfNotModified,
    )
    state = str(started["copy_status"])

    def ended() -> bool:
        nonlocal state
        if state == "pending":
            state = str(copied.get_blob_properties().copy.status)
        return state != "pending"

    wait_until(ended, COPY_SECONDS, _POLL_SECONDS)
    if state != "success":
        raise UserError(f"{target}: could not be copied within storage ({state}); try again")


def _changing(source: str) -> UserError:
    return UserError(
        f"{source}: changed during the copy, so nothing was registered; wait until the run's job"
        " has ended, and run the same command again"
    )


def _path(model: Model) -> str:
    return f"models/{segment(model.name)}/versions/{segment(model.version)}"
