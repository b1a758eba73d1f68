"""Upload the code of jobs, once per content, and register it under its digest.

The code is uploaded to an address that the workspace provides, with its signature or as the
signed-in user. A registered version is complete: it is registered after its last file was uploaded.
"""

from collections.abc import Mapping
from typing import Any, Final

from azure.core.exceptions import HttpResponseError

from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import client, put_files
from jobs.errors import ConflictError
from jobs.spec.code_snapshot import CodeSnapshot

FOLDER: Final = "code"
"""Folder of the code in the container that the workspace provides."""
VERSION: Final = "1"
KEY_REFUSED: Final = ("KeyBasedAuthenticationNotPermitted", "AuthenticationFailed")
"""Codes of storage for an address that is signed with a key of an account that accepts none."""


def upload(manager: ResourceManager, code: CodeSnapshot) -> str:
    """Upload and register the code unless it is registered, and return its resource id.

    Raises:
        RequestError: The workspace or its storage refused a request.
    """
    path = f"codes/{segment(f'trainer-{code.digest}')}/versions/{VERSION}"
    registered = manager.find(path)
    if registered is not None:
        return str(registered["id"])
    upload_type = {"pendingUploadType": "TemporaryBlobReference"}
    reference = manager.post(f"{path}/startPendingUpload", upload_type)[
        "blobReferenceForConsumption"
    ]
    with manager.requests.errors("the code of the job"):
        _send(manager, reference, code.contents)
    properties = {"codeUri": f"{reference['blobUri'].rstrip('/')}/{FOLDER}", "isAnonymous": False}
    try:
        return str(manager.put(path, {"properties": properties})["id"])
    except ConflictError:
        # Someone else registered the same code in the meantime.
        registered = manager.find(path)
        if registered is None:
            raise
        return str(registered["id"])


def _send(
    manager: ResourceManager, reference: Mapping[str, Any], contents: Mapping[str, bytes]
) -> None:
    """Send the files to the signed address, or as the signed-in user.

    The platform's accounts accept no keys, and the service may hand out an address that is signed
    with one (Azure/azure-cli, issue 31690).
    """
    try:
        put_files(client(reference["credential"]["sasUri"]), FOLDER, contents)
    except HttpResponseError as error:
        if getattr(error, "error_code", None) not in KEY_REFUSED:
            raise
        put_files(client(reference["blobUri"], manager.requests.credential), FOLDER, contents)
