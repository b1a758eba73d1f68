"""Upload the code of jobs, once per content, and register it under its digest.

The code is uploaded to a URL that the workspace provides, as Azure's SDK does. A registered version
is complete: it is registered after its last file was uploaded.
"""

from typing import Any, Final

from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import client, put_files
from jobs.errors import ConflictError, MissingError
from jobs.spec.code_snapshot import CodeSnapshot

FOLDER: Final = "code"
"""Folder of the code in the container that the workspace provides."""
VERSION: Final = "1"


def upload(manager: ResourceManager, code: CodeSnapshot) -> str:
    """Upload and register the code unless it is registered, and return its resource id.

    Raises:
        RequestError: The workspace or its storage refused a request.
    """
    path = f"codes/{segment(f'trainer-{code.digest}')}/versions/{VERSION}"
    registered = _id(manager, path)
    if registered is not None:
        return registered
    upload_type = {"pendingUploadType": "TemporaryBlobReference"}
    reference = manager.post(f"{path}/startPendingUpload", upload_type)[
        "blobReferenceForConsumption"
    ]
    with manager.errors("the code of the job"):
        put_files(client(reference["credential"]["sasUri"]), FOLDER, code.contents)
    properties = {"codeUri": f"{reference['blobUri'].rstrip('/')}/{FOLDER}", "isAnonymous": False}
    try:
        return str(manager.put(path, {"properties": properties})["id"])
    except ConflictError:
        # Someone else registered the same code in the meantime.
        registered = _id(manager, path)
        if registered is None:
            raise
        return registered


def _id(manager: ResourceManager, path: str) -> str | None:
    try:
        answer: dict[str, Any] = manager.get(path)
    except MissingError:
        return None
    return str(answer["id"])
