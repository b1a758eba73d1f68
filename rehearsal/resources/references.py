"""What a job's folders and assets refer to."""

import re
from dataclasses import dataclass

from rehearsal.control_plane.resource_manager import Resources
from rehearsal.errors import user_error

_DATASTORE = re.compile(
    r"azureml://(?:subscriptions/[^/]+/resourcegroups/[^/]+/(?:providers/[^/]+/)?workspaces/[^/]+/)?"
    r"datastores/([^/]+)(?:/paths)?/?(.*)",
    re.IGNORECASE,
)
_ASSET = re.compile(r"(?:azureml:)?([^:/@]+)(?::([^:/@]+)|@(latest))")


@dataclass(frozen=True)
class Place:
    """A folder or blob of a container."""

    account: str
    container: str
    path: str
    """Without a slash at either end."""


def place(resources: Resources, workspace: str, uri: str, family: str = "data") -> Place:
    """Where the blobs are that a URI or an asset's name means.

    Raises:
        AzureError: it means nothing that is there.
    """
    match = _DATASTORE.fullmatch(uri)
    if match is not None:
        return _in_datastore(resources, workspace, match[1], match[2])
    identifier = asset(resources, workspace, uri, family)
    document = resources.get(identifier)
    if document is None:
        raise user_error(
            f"The data asset {uri} was not found in workspace {workspace.rsplit('/', 1)[1]}."
        )
    properties = document["properties"]
    return place(resources, workspace, properties.get("dataUri") or properties["modelUri"])


def asset(resources: Resources, workspace: str, text: str, family: str) -> str:
    """Id of the version of an asset that a job names.

    Raises:
        AzureError: the text names none.
    """
    plain = text.removeprefix("azureml:")
    if plain.lower().startswith("/subscriptions/"):
        return plain
    match = _ASSET.fullmatch(plain)
    if match is None:
        raise user_error(f"{text!r} names neither a folder of a datastore nor an asset.")
    version = match[2]
    if match[3]:
        document = resources.get(f"{workspace}/{family}/{match[1]}") or {"properties": {}}
        version = document["properties"].get("latestVersion", "latest")
    return f"{workspace}/{family}/{match[1]}/versions/{version}"


def _in_datastore(resources: Resources, workspace: str, name: str, path: str) -> Place:
    document = resources.get(f"{workspace}/datastores/{name}")
    if document is None:
        raise user_error(
            f"Could not find datastore: {name} in workspace {workspace.rsplit('/', 1)[1]}."
        )
    properties = document["properties"]
    return Place(properties["accountName"], properties["containerName"], path.strip("/"))
