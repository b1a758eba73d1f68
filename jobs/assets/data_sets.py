"""Registered data sets: a name and a version for a folder of a datastore, which runs refer to."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import ConflictError, MissingError
from jobs.spec.job_spec import datastore_path, datastore_uri
from trainer.data.manifest import Manifest


@dataclass(frozen=True)
class DataSet:
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


def describe(
    files: int, size: int, manifest: Manifest | None = None, content: bytes | None = None
) -> dict[str, str]:
    """Tags of a registered data set.

    Args:
        files: in all.
        size: bytes in all.
        manifest: if it has one.
        content: of the manifest's file.
    """
    tags = {"files": str(files), "bytes": str(size)}
    if manifest is not None and content is not None:
        images = sum(split.examples for split in manifest.splits.values())
        tags |= {"images": str(images), "classes": str(len(manifest.classes))}
        tags["manifest"] = hashlib.sha256(content).hexdigest()
    return tags


def versions(manager: ResourceManager, name: str) -> dict[str, str]:
    """Folders of all registered versions of a data set, as `datastore_path` writes them.

    Raises:
        RequestError: the workspace could not be asked.
    """
    try:
        items = list(manager.items(f"data/{segment(name)}/versions"))
    except MissingError:
        # Of a workspace that is not there the caller has heard before.
        return {}
    return {str(item["name"]): datastore_path(str(item["properties"]["dataUri"])) for item in items}


def is_registered(data_set: DataSet, registered: Mapping[str, str]) -> bool:
    """Whether a data set is registered already, just like this. Pure.

    Args:
        data_set: to register.
        registered: as `versions` gives them.

    Raises:
        ConflictError: the version is another folder's, or the folder another version's.
    """
    folder = datastore_path(data_set.uri)
    other_folder = registered.get(data_set.version)
    if other_folder is not None and other_folder != folder:
        raise ConflictError(
            f"data set {data_set.reference}: is registered already, at {other_folder}; a version"
            " stays where it is, so upload to that folder, or give another --name"
        )
    other_version = version_in(data_set.uri, registered)
    if other_version not in (None, data_set.version):
        raise folder_taken(data_set.name, str(other_version), data_set.folder)
    return other_folder is not None


def version_in(uri: str, registered: Mapping[str, str]) -> str | None:
    """The version that a folder is registered as; None if it is not."""
    folder = datastore_path(uri)
    return next((version for version, path in registered.items() if path == folder), None)


def folder_taken(name: str, version: str, folder: str) -> ConflictError:
    """The error for a folder that belongs to another version."""
    return ConflictError(
        f"{folder}: is data set {name}:{version}, and runs rely on its content; upload this one to"
        " another folder"
    )


def register(manager: ResourceManager, data_set: DataSet) -> None:
    """Register a data set; the same again changes nothing.

    Raises:
        RequestError: Azure refused it.
    """
    properties = {
        "dataType": "uri_folder",
        "dataUri": data_set.uri,
        "tags": dict(data_set.tags),
        "isAnonymous": False,
    }
    path = f"data/{segment(data_set.name)}/versions/{segment(data_set.version)}"
    manager.put(path, {"properties": properties})
