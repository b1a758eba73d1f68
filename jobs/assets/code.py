"""The code of jobs, uploaded once for each content and registered under its digest.

It is sent to the address that the workspace gives for it, as Azure's SDK does. A registered version
is complete: it is registered after its last file has arrived.
"""

from typing import Any, Final

from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import client, put_files
from jobs.errors import ConflictError, MissingError
from jobs.spec.code_snapshot import CodeSnapshot

FOLDER: Final = "code"
"""Of the files, in the container that the workspace gives."""
VERSION: Final = "1"


def upload(manager: ResourceManager, code: CodeSnapshot) -> str:
    """Make sure that the workspace has the code, and return its resource id.

    Args:
        manager: of the workspace.
        code: as it was read.

    Raises:
        RequestError: the workspace or its storage refuses.
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
        # Another who submits the same code was faster.
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
