"""Images registered as environments of the workspace, whose own cluster builds them at first use.

The build context is uploaded by us and registered by its address: the SDK does not touch a context
whose path is one, while it would upload a local one to an address of its own, by a key. That Azure
takes an address of a blob container is what its API definitions say ("Supports blob URIs on
environment creation"). Not tried: that the build cluster, whose identity may read the container of
results, reads the context from there by that identity.
"""

import hashlib
from pathlib import Path
from typing import Final
from urllib.parse import quote

from azure.core.exceptions import AzureError
from azure.storage.blob import ContainerClient, ContentSettings

from infra.outputs import Datastore
from jobs.azure.storage import container, listed, refused
from jobs.azure.workspace import Workspace, segment
from jobs.errors import MissingError
from jobs.spec.build_context import BuildContext, Image, build_context

DOCKERFILE: Final = "Dockerfile"
FOLDER: Final = "environments"
"""Of build contexts, in the container of results."""
CONTENT: Final = "content"
"""Tag of a registered environment: what its version is a hash of."""


def ensure(image: Image, workspace: Workspace, repository: Path | None = None) -> str:
    """Make sure that an image is registered as it is described here, and give its name.

    Args:
        image: which one.
        workspace: that it is registered in.
        repository: folder that holds `environments/` and `locks/`; none is this project's.

    Returns:
        NAME:VERSION of the environment.

    Raises:
        SnapshotError: the image's files are missing here.
        RequestError: the workspace or its storage refuses.
    """
    context = build_context(repository or Path(__file__).resolve().parents[2], image)
    path = f"environments/{segment(context.name)}/versions/{segment(context.version)}"
    if not _registered(workspace, path):
        address = upload(context, workspace)
        workspace.arm("PUT", path, body=body(context, address))
    return context.reference


def upload(context: BuildContext, workspace: Workspace) -> str:
    """Put a build context into the container of results; what is there is not sent again.

    Returns:
        Its address, with a slash at its end as Azure wants it.

    Raises:
        RequestError: storage refuses it.
    """
    store = workspace.outputs.datastores.results
    folder = f"{FOLDER}/{context.name}/{context.version}"
    try:
        _fill(container(store, workspace.credential), folder, context)
    except AzureError as error:
        raise refused(error, store, workspace.outputs, workspace.who, writing=True) from error
    return context_address(store, folder)


def context_address(store: Datastore, folder: str) -> str:
    """Of a folder in a container."""
    return f"{store.blob_endpoint.rstrip('/')}/{store.container}/{quote(folder)}/"


def body(context: BuildContext, address: str) -> dict[str, object]:
    """What registers an environment.

    Args:
        context: what it is built from.
        address: where that is.
    """
    return {
        "properties": {
            "build": {"contextUri": address, "dockerfilePath": DOCKERFILE},
            "osType": "Linux",
            "description": f"Image {context.image} of the trainer",
            "tags": {CONTENT: context.version},
            "isAnonymous": False,
            "isArchived": False,
        }
    }


def _registered(workspace: Workspace, path: str) -> bool:
    try:
        workspace.arm("GET", path)
    except MissingError:
        workspace.check()
        return False
    return True


def _fill(client: ContainerClient, folder: str, context: BuildContext) -> None:
    there = listed(client, folder)
    for name, content in context.contents.items():
        blob = there.get(name)
        if blob is not None and blob.size == len(content) and blob.md5 == _md5(content):
            continue
        client.upload_blob(
            f"{folder}/{name}",
            content,
            overwrite=True,
            validate_content=True,
            content_settings=ContentSettings(content_md5=bytearray(_md5(content))),
        )


def _md5(content: bytes) -> bytes:
    return hashlib.md5(content, usedforsecurity=False).digest()
