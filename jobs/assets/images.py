"""Images registered as environments of the workspace, whose own cluster builds them at first use.

The build context is uploaded by us and registered by its address: the SDK does not touch a context
whose path is one, while it would upload a local one to an address of its own, by a key. That Azure
takes an address of a blob container is what its API definitions say ("Supports blob URIs on
environment creation"). Not tried: that the build cluster, whose identity may read the container of
results, reads the context from there by that identity.
"""

from typing import Final
from urllib.parse import quote

from infra.outputs import Datastore
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import Storage, listed, md5_of, put_files
from jobs.errors import MissingError
from jobs.spec.build_context import BuildContext

DOCKERFILE: Final = "Dockerfile"
FOLDER: Final = "environments"
"""Of build contexts, in the container of results."""
CONTENT: Final = "content"
"""Tag of a registered environment: what its version is a hash of."""


def ensure(manager: ResourceManager, storage: Storage, context: BuildContext) -> str:
    """Make sure that an image is registered as it is described here.

    Args:
        manager: of the workspace that it is registered in.
        storage: that its build context is uploaded to.
        context: what it is built from.

    Returns:
        NAME:VERSION of the environment.

    Raises:
        RequestError: the workspace or its storage refuses.
    """
    path = f"environments/{segment(context.name)}/versions/{segment(context.version)}"
    if not _is_registered(manager, path):
        manager.put(path, body(context, upload(storage, context)))
    return context.reference


def upload(storage: Storage, context: BuildContext) -> str:
    """Put a build context into the container of results; what is there is not sent again.

    Returns:
        Its address, with a slash at its end as Azure wants it.

    Raises:
        RequestError: storage refuses it.
    """
    store = storage.datastores.results
    folder = f"{FOLDER}/{context.name}/{context.version}"
    with storage.errors(store, writing=True):
        client = storage.container(store)
        blobs = listed(client, folder)
        missing = {
            name: content
            for name, content in context.contents.items()
            if name not in blobs or blobs[name].md5 != md5_of(content)
        }
        put_files(client, folder, missing)
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


def _is_registered(manager: ResourceManager, path: str) -> bool:
    try:
        manager.get(path)
    except MissingError:
        manager.check_workspace()
        return False
    return True
