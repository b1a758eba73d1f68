"""Requests to the run history: details of jobs that Resource Manager does not have, and logs."""

from functools import cached_property
from typing import Any, Final

from azure.core.exceptions import HttpResponseError

from jobs.azure.requests import Answer, Requests, is_of_storage, segment
from jobs.azure.resource_manager import ResourceManager
from jobs.errors import OddAnswerError

CHUNK: Final = 4 << 20
"""Bytes of a log to read per request."""


class RunHistory:
    """Run history of a workspace. Each method raises a subclass of `RequestError` if it fails."""

    def __init__(self, requests: Requests, manager: ResourceManager) -> None:
        self._requests, self._manager = requests, manager

    def details(self, job: str) -> Answer:
        """Get the state, times, errors and log files of a job by its name."""
        return self._send("GET", f"runs/{segment(job)}/details")

    def services(self, job: str, node: int) -> dict[str, Any]:
        """Get the services of a job on one of its nodes, by name; empty if it has none."""
        answer = self._send("GET", f"runs/{segment(job)}/serviceinstances/{node}")
        return answer.get("instances") or {}

    def tag(self, experiment: str, job: str, tags: dict[str, str]) -> None:
        """Add tags to a job.

        This request is not documented; it is inferred from those of Azure ML studio and MLflow. It
        may not change the tags that Resource Manager returns, so callers must read them back.
        """
        path = f"experiments/{segment(experiment)}/runs/{segment(job)}"
        self._send("PATCH", path, {"tags": tags})

    def read_log(self, address: str, offset: int) -> bytes | None:
        """Read at most `CHUNK` bytes of a log file.

        Args:
            address: URL from `details`, which contains a signature.
            offset: First byte to read.

        Returns:
            Content, or None if the file is shorter than the offset, so was restarted.
        """
        headers = {"Range": f"bytes={offset}-{offset + CHUNK - 1}"}
        with self._requests.errors("log file"):
            response = self._requests.get_anonymously(address, headers)
            if response.status_code == 416:
                return _past_end(response.headers.get("Content-Range", ""), offset)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            if not is_of_storage(response.headers):
                raise OddAnswerError("log file: the response is not one of Azure Storage")
            content: bytes = response.content
            # A server may ignore the range and send the file from its start.
            return content if response.status_code == 206 else content[offset : offset + CHUNK]

    def _send(self, method: str, path: str, body: object = None) -> Answer:
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
