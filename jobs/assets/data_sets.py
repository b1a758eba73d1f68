"""Registered data sets: a name and a version for a folder of a datastore, which runs refer to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jobs.azure.workspace import Workspace, segment
from jobs.errors import ConflictError, MissingError
from jobs.spec.job_spec import datastore_uri, place


@dataclass(frozen=True)
class DataAsset:
    """A folder to register."""

    name: str
    version: str
    datastore: str
    folder: str
    tags: Mapping[str, str]

    @property
    def reference(self) -> str:
        """NAME:VERSION, as `--data.asset` takes it."""
        return f"{self.name}:{self.version}"

    @property
    def uri(self) -> str:
        return datastore_uri(self.datastore, self.folder)


def versions(workspace: Workspace, name: str) -> dict[str, str]:
    """Places of all registered versions of a data set.

    Raises:
        RequestError: the workspace could not be asked.
    """
    try:
        items = list(workspace.arm_list(f"data/{segment(name)}/versions"))
    except MissingError:
        # Of a workspace that is not there the caller has heard before.
        return {}
    return {str(item["name"]): place(str(item["properties"]["dataUri"])) for item in items}


def check(asset: DataAsset, registered: Mapping[str, str]) -> bool:
    """Whether a data set is registered already, just like this.

    Args:
        asset: to register.
        registered: as `versions` gives them.

    Raises:
        ConflictError: the version is another folder's, or the folder another version's.
    """
    here = place(asset.uri)
    there = registered.get(asset.version)
    if there is not None and there != here:
        raise ConflictError(
            f"data set {asset.reference}: is registered already, at {there}; a version stays where"
            f" it is, so upload to that folder, or give another --name"
        )
    other = next((v for v, at in registered.items() if at == here and v != asset.version), None)
    if other is not None:
        raise sealed(asset.name, other, asset.folder)
    return there is not None


def sealed(name: str, version: str, folder: str) -> ConflictError:
    """The error for a folder that belongs to another version."""
    return ConflictError(
        f"{folder}: is data set {name}:{version}, and runs rely on its content; upload this one to"
        " another folder"
    )


def register(workspace: Workspace, asset: DataAsset) -> None:
    """Register a data set; the same again changes nothing.

    Raises:
        RequestError: Azure refused it.
    """
    body: dict[str, Any] = {
        "properties": {
            "dataType": "uri_folder",
            "dataUri": asset.uri,
            "tags": dict(asset.tags),
            "isAnonymous": False,
        }
    }
    path = f"data/{segment(asset.name)}/versions/{segment(asset.version)}"
    workspace.arm("PUT", path, body=body)
