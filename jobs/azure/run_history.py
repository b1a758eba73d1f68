"""The run history of a workspace: what it knows of each job beyond Resource Manager, and logs."""

from functools import cached_property
from typing import Any, Final

from azure.core.exceptions import HttpResponseError

from jobs.azure.requests import Requests, segment
from jobs.azure.resource_manager import ResourceManager

CHUNK: Final = 4 << 20
"""Bytes of a log that are asked for at once."""


class RunHistory:
    """Asks the run history. Each method raises one of the kinds of `RequestError`.

    Args:
        requests: sends what is asked.
        manager: tells where the run history of the workspace is.
    """

    def __init__(self, requests: Requests, manager: ResourceManager) -> None:
        self._requests, self._manager = requests, manager

    def details(self, job: str) -> dict[str, Any]:
        """State, times, errors and log files of a job, by its name."""
        details: dict[str, Any] = self._send("GET", f"runs/{segment(job)}/details")
        return details

    def tag(self, experiment: str, job: str, tags: dict[str, str]) -> None:
        """Add tags to a job.

        A guess, by what the studio and MLflow ask of the run history: no document of Azure's names
        it, and it may change nothing that Resource Manager tells. So it is to be read back.
        """
        path = f"experiments/{segment(experiment)}/runs/{segment(job)}"
        self._send("PATCH", path, {"tags": tags})

    def read_log(self, address: str, offset: int) -> bytes | None:
        """At most `CHUNK` bytes of a log file.

        Args:
            address: as `details` gives it; it holds its own signature.
            offset: byte to begin at.

        Returns:
            None if the file is shorter than the offset, so has been begun anew.
        """
        headers = {"Range": f"bytes={offset}-{offset + CHUNK - 1}"}
        with self._requests.errors("log file"):
            response = self._requests.get_anonymously(address, headers)
            if response.status_code == 416:
                return _past_end(response.headers.get("Content-Range", ""), offset)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            content: bytes = response.content
            # A server may ignore the range, and send the file from its start.
            return content if response.status_code == 206 else content[offset : offset + CHUNK]

    def _send(self, method: str, path: str, body: object = None) -> Any:
        url = f"{self._url}/history/v1.0{self._manager.workspace_id}/{path}"
        return self._requests.send(method, url, body)

    @cached_property
    def _url(self) -> str:
        workspace = self._manager.get(self._manager.workspace_id)
        discovery = workspace["properties"]["discoveryUrl"]
        return str(self._requests.send("GET", discovery, signed=False)["api"]).rstrip("/")


def _past_end(content_range: str, offset: int) -> bytes | None:
    size = content_range.rpartition("/")[2]
    return None if size.isdigit() and int(size) < offset else b""
