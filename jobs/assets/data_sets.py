"""Registered data sets: a name and version of a folder in a datastore, which runs refer to."""

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
    """A data set to register."""

    name: str
    version: str
    datastore: str
    folder: str
    tags: Mapping[str, str]

    @property
    def reference(self) -> str:
        """NAME:VERSION, as in `--data.asset`."""
        return f"{self.name}:{self.version}"

    @property
    def uri(self) -> str:
        return datastore_uri(self.datastore, self.folder)


def describe(
    files: int, size: int, manifest: Manifest | None = None, content: bytes | None = None
) -> dict[str, str]:
    """Return the tags of a data set to register.

    Args:
        files: Number of files.
        size: Bytes of all files.
        manifest: Manifest of the data set, or None.
        content: Content of the manifest file, or None.
    """
    tags = {"files": str(files), "bytes": str(size)}
    if manifest is not None and content is not None:
        images = sum(split.examples for split in manifest.splits.values())
        tags |= {"images": str(images), "classes": str(len(manifest.classes))}
        tags["manifest"] = hashlib.sha256(content).hexdigest()
    return tags


def versions(manager: ResourceManager, name: str) -> dict[str, str]:
    """Return the folders of all registered versions of a data set, as from `datastore_path`.

    Raises:
        RequestError: The request to the workspace failed.
    """
    try:
        items = list(manager.items(f"data/{segment(name)}/versions"))
    except MissingError:
        # The caller has already checked that the workspace exists.
        return {}
    return {str(item["name"]): datastore_path(str(item["properties"]["dataUri"])) for item in items}


def is_registered(data_set: DataSet, registered: Mapping[str, str]) -> bool:
    """Whether a data set is already registered with the same version and folder. Pure.

    Args:
        data_set: Data set to register.
        registered: Registered versions, from `versions`.

    Raises:
        ConflictError: The version is registered for another folder, or the folder for another
            version.
    """
    folder = datastore_path(data_set.uri)
    other_folder = registered.get(data_set.version)
    if other_folder is not None and other_folder != folder:
        raise ConflictError(
            f"data set {data_set.reference}: is already registered at {other_folder}, which cannot"
            " change; upload to that folder, or pass another --name"
        )
    other_version = version_in(data_set.uri, registered)
    if other_version not in (None, data_set.version):
        raise folder_taken(data_set.name, str(other_version), data_set.folder)
    return other_folder is not None


def version_in(uri: str, registered: Mapping[str, str]) -> str | None:
    """Return the version that a folder is registered as, or None."""
    folder = datastore_path(uri)
    return next((version for version, path in registered.items() if path == folder), None)


def folder_taken(name: str, version: str, folder: str) -> ConflictError:
    """Return the error for a folder that is registered as another version."""
    return ConflictError(
        f"{folder}: is registered as data set {name}:{version}, whose content must not change;"
        " upload to another folder"
    )


def register(manager: ResourceManager, data_set: DataSet) -> None:
    """Register a data set; registering the same one again changes nothing.

    Raises:
        RequestError: Azure refused the request.
    """
    properties = {
        "dataType": "uri_folder",
        "dataUri": data_set.uri,
        "tags": dict(data_set.tags),
        "isAnonymous": False,
    }
    path = f"data/{segment(data_set.name)}/versions/{segment(data_set.version)}"
    manager.put(path, {"properties": properties})
