"""Requests to Resource Manager: resources of a stack, and those in its workspace."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from jobs.azure.error_messages import Platform
from jobs.azure.requests import Answer, Requests, segment
from jobs.errors import MissingError, OddAnswerError, RequestError

API_VERSION: Final = "2024-10-01"
"""API version of Microsoft.MachineLearningServices."""

_PROVIDER: Final = "providers/Microsoft.MachineLearningServices"


class ResourceManager:
    """Resource Manager for one stack.

    A path is a resource id that begins with /, or a path in the workspace, such as `computes/NAME`;
    it may have a query. Each method raises a subclass of `RequestError` if its request fails.
    """

    def __init__(self, requests: Requests, outputs: Platform) -> None:
        self.requests = requests
        """Sends requests as the signed-in user, and explains errors."""
        self.subscription_id = f"/subscriptions/{outputs.subscription_id}"
        """Resource id of the subscription."""
        self.group_id = f"{self.subscription_id}/resourceGroups/{outputs.resource_group}"
        """Resource id of the resource group."""
        self.workspaces_id = f"{self.subscription_id}/{_PROVIDER}/workspaces"
        """Path of all workspaces of the subscription."""
        self.workspace_id = f"{self.group_id}/{_PROVIDER}/workspaces/{outputs.workspace}"
        """Resource id of the workspace."""
        self.location_id = f"{self.subscription_id}/{_PROVIDER}/locations/{outputs.region}"
        """Path of the VM sizes and quotas of Azure Machine Learning in the stack's region."""
        self.workspace = outputs.workspace
        """Name of the workspace."""

    def get(self, path: str, api_version: str = API_VERSION) -> Answer:
        """Get the resource at a path."""
        return self._send("GET", path, api_version)

    def find(self, path: str, api_version: str = API_VERSION) -> Answer | None:
        """Get the resource at a path; None if it does not exist."""
        try:
            return self.get(path, api_version)
        except MissingError:
            return None

    def put(self, path: str, body: object, api_version: str = API_VERSION) -> Answer:
        """Create or update a resource, and return it."""
        return self._send("PUT", path, api_version, body)

    def post(self, path: str, body: object = None, api_version: str = API_VERSION) -> Answer:
        """Request an action."""
        return self._send("POST", path, api_version, body)

    def delete(self, path: str, api_version: str = API_VERSION) -> None:
        """Delete a resource, if it exists."""
        with suppress(MissingError):
            self._send("DELETE", path, api_version)

    def items(self, path: str, api_version: str = API_VERSION) -> Iterator[Any]:
        """Iterate over all items of a list, across its pages.

        Raises:
            RequestError: A page names another host, or a page that was already read, as the next.
        """
        page: Answer = self.get(path, api_version)
        read: set[str] = set()
        while True:
            items = page["value"]
            if not isinstance(items, list):
                raise OddAnswerError(f"{path}: the response from Azure is not a list")
            for item in items:
                yield _checked(item, path)
            following = page.get("nextLink")
            if not following:
                return
            if urlsplit(following).netloc != urlsplit(self._url).netloc:
                raise RequestError(f"{path}: refused to follow its next page to another host")
            if following in read:
                raise RequestError(
                    f"{path}: Azure names a page again that was already read, so the list has no "
                    "end; try again later"
                )
            read.add(following)
            page = self.requests.send("GET", following)

    def data_uri(self, asset: str) -> str:
        """Return the URI of the folder of a registered data set, NAME:VERSION."""
        name, _, version = asset.partition(":")
        data_set = self.get(f"data/{segment(name)}/versions/{segment(version)}")
        return str(data_set["properties"]["dataUri"])

    def check_workspace(self) -> None:
        """Check that the workspace exists, to tell a missing workspace from a missing part of it.

        Raises:
            MissingError: There is no such workspace.
        """
        self.get(self.workspace_id)

    def now(self) -> datetime:
        """Return the time by Azure's clock, as of its last response."""
        return self.requests.now()

    def user(self) -> str | None:
        """Return the name of the signed-in user, or None."""
        return self.requests.user()

    @property
    def _url(self) -> str:
        return self.requests.manager_url

    def _send(self, method: str, path: str, api_version: str, body: object = None) -> Answer:
        path = path if path.startswith("/") else f"{self.workspace_id}/{path}".rstrip("/")
        mark = "&" if "?" in path else "?"
        url = f"{self._url}{path}{mark}api-version={api_version}"
        answer: Answer = _checked(self.requests.send(method, url, body), path)
        return answer


def _checked(resource: Any, path: str) -> Any:
    """Return a resource if it has the form of one.

    Raises:
        OddAnswerError: It is not an object, or its properties are not.
    """
    if isinstance(resource, Mapping) and isinstance(resource.get("properties", {}), Mapping):
        return resource
    what = path.partition("?")[0].rpartition("/")[2]
    raise OddAnswerError(f"{what}: the response from Azure does not have the form of a resource")
