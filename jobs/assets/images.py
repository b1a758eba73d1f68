"""Register images as environments of the workspace, whose build cluster builds them at first use,
or which finds them in its registry if the stack has no build cluster.

This module uploads the build context to the container of results and registers its URL: the SDK
would upload a local context to a location of its own with an account key. Azure's API definitions
allow the URL of a blob container ("Supports blob URIs on environment creation"). Not tested: that
the build cluster reads the context with its identity, which may read this folder of the container.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from infra.outputs import CONTEXTS_FOLDER
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import Storage, listed, md5_of, put_files
from jobs.spec.build_context import BuildContext

DOCKERFILE: Final = "Dockerfile"
CONTENT: Final = "content"
"""Tag of a registered environment with the hash of its build context, which is its version."""


def ensure(
    manager: ResourceManager,
    storage: Storage,
    context: BuildContext,
    inference: Mapping[str, object] | None = None,
    registry: str | None = None,
) -> str:
    """Register an image unless this version of it is registered.

    Args:
        manager: Resource Manager of the workspace.
        storage: Storage that the build context is uploaded to.
        context: Build context of the image.
        inference: Where a server in the image answers (`inferenceConfig`), if there is one.
        registry: Registry that the image was pushed to; None if the workspace builds it.

    Returns:
        NAME:VERSION of the environment.

    Raises:
        RequestError: The workspace or its storage refused a request.
    """
    path = f"environments/{segment(context.name)}/versions/{segment(context.version)}"
    if manager.find(path) is None:
        manager.check_workspace()
        if registry is not None:
            origin: dict[str, object] = {"image": f"{registry}/{context.reference}"}
        else:
            address = upload(storage, context)
            origin = {"build": {"contextUri": address, "dockerfilePath": DOCKERFILE}}
        manager.put(path, body(context, origin, inference))
    return context.reference


def upload(storage: Storage, context: BuildContext) -> str:
    """Upload a build context to the container of results, except for files that exist there.

    Returns:
        URL of the build context, with a trailing slash as Azure requires.

    Raises:
        RequestError: Storage refused a request.
    """
    store = storage.datastores.results
    folder = f"{CONTEXTS_FOLDER}/{context.name}/{context.version}"
    with storage.errors(store, writing=True):
        client = storage.container(store)
        blobs = listed(client, folder)
        missing = {
            name: content
            for name, content in context.contents.items()
            if name not in blobs or blobs[name].md5 != md5_of(content)
        }
        put_files(client, folder, missing)
    return f"{store.blob_endpoint.rstrip('/')}/{store.container}/{quote(folder)}/"


def body(
    context: BuildContext,
    origin: Mapping[str, object],
    inference: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Build the request body that registers an environment.

    Args:
        context: Build context of the image.
        origin: The build context (`build`), or the image in the registry (`image`).
        inference: Where a server in the image answers, if there is one.
    """
    return {
        "properties": {
            **({"inferenceConfig": inference} if inference else {}),
            **origin,
            "osType": "Linux",
            "description": f"Image {context.image} of the trainer",
            "tags": {CONTENT: context.version},
            "isAnonymous": False,
            "isArchived": False,
        }
    }
