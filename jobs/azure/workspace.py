"""The one place that signs in to Azure and speaks to Resource Manager and Azure ML.

Requests go through azure-core's pipeline, which repeats what was refused for a moment (429 and 5xx,
after what Retry-After says). The SDK's client is made when it is first asked for: importing it
takes seconds. With ARM_CLOUD_METADATA_URL and AZURE_AUTHORITY_HOST all goes to another cloud.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from azure.core import PipelineClient
from azure.core.credentials import TokenCredential
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.pipeline import policies
from azure.core.rest import HttpRequest
from azure.identity import DefaultAzureCredential

from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.azure.error_messages import explained, signed_in_as
from jobs.azure.requests import pipeline, read_json, segment, thing_at
from jobs.errors import RequestError

__all__ = ["API_VERSION", "Workspace", "async_credential", "connect", "credential", "segment"]

if TYPE_CHECKING:
    from azure.ai.ml import MLClient
    from azure.core.credentials_async import AsyncTokenCredential

API_VERSION: Final = "2024-10-01"
"""Of Microsoft.MachineLearningServices, for our own requests."""

_PUBLIC: Final = "https://management.azure.com"
_MICROSOFT: Final = (
    "login.microsoftonline.com",
    "login.microsoftonline.us",
    "login.chinacloudapi.cn",
)


def credential() -> TokenCredential:
    """Who asks: a service principal or managed identity of the environment, else `az login`."""
    return DefaultAzureCredential(**_ways())


def async_credential() -> "AsyncTokenCredential":
    """The same for libraries that ask by asyncio."""
    from azure.identity.aio import DefaultAzureCredential as Asynchronous  # noqa: PLC0415

    return Asynchronous(**_ways())


def connect(outputs: PlatformOutputs) -> "Workspace":
    """The workspace of a stack; nothing is asked before it is needed."""
    return Workspace(outputs, credential())


class Workspace:
    """A workspace of Azure Machine Learning, with everything that may be asked of it."""

    def __init__(self, outputs: PlatformOutputs, credential: TokenCredential) -> None:
        self.outputs = outputs
        self.credential = credential

    @property
    def group_id(self) -> str:
        """Resource id of the resource group."""
        outputs = self.outputs
        return f"/subscriptions/{outputs.subscription_id}/resourceGroups/{outputs.resource_group}"

    @property
    def id(self) -> str:
        """Resource id of the workspace."""
        provider = "providers/Microsoft.MachineLearningServices/workspaces"
        return f"{self.group_id}/{provider}/{self.outputs.workspace}"

    @cached_property
    def client(self) -> "MLClient":
        """The SDK, for what is more than a request; use it inside of `errors`."""
        from azure.ai.ml import MLClient  # noqa: PLC0415

        outputs = self.outputs
        with self.errors(f"workspace {outputs.workspace}"):
            return MLClient(
                self.credential,
                outputs.subscription_id,
                outputs.resource_group,
                outputs.workspace,
                enable_telemetry=False,
                show_progress=False,
            )

    def arm(
        self, method: str, path: str, api_version: str = API_VERSION, body: object = None
    ) -> Any:
        """Ask Resource Manager.

        Args:
            method: of HTTP.
            path: a resource id that begins with /, or what is below the workspace, such as
                `computes/NAME`. It may have a query.
            api_version: of the resource's provider.
            body: what JSON can hold.

        Returns:
            The answer's JSON; none if it is empty.

        Raises:
            RequestError: one of its kinds by what went wrong.
        """
        path = path if path.startswith("/") else f"{self.id}/{path}".rstrip("/")
        mark = "&" if "?" in path else "?"
        return self._ask(method, f"{self._manager}{path}{mark}api-version={api_version}", body)

    def arm_list(self, path: str, api_version: str = API_VERSION) -> Iterator[Any]:
        """All items of a list of Resource Manager's, page by page; see `arm`."""
        page = self.arm("GET", path, api_version)
        while page is not None:
            yield from page.get("value", [])
            following = page.get("nextLink")
            if following and urlsplit(following).netloc != urlsplit(self._manager).netloc:
                raise RequestError(f"{path}: its next page is on another host, which is refused")
            page = self._ask("GET", following, None) if following else None

    def history(self, method: str, path: str, body: object = None) -> Any:
        """Ask the run history of this workspace.

        Args:
            method: of HTTP.
            path: below the workspace, such as `runs/NAME/details`.
            body: what JSON can hold.

        Returns:
            The answer's JSON; none if it is empty.

        Raises:
            RequestError: one of its kinds by what went wrong.
        """
        return self._ask(method, f"{self._run_history}/history/v1.0{self.id}/{path}", body)

    def check(self) -> None:
        """Ask for the workspace itself, to tell whether it is missing or only a part of it.

        Raises:
            MissingError: there is no such workspace.
        """
        self.arm("GET", self.id)

    def who(self) -> str | None:
        """Who is signed in, by a name that a person knows; none if nobody is."""
        try:
            return signed_in_as(self.credential.get_token(self._scope).token)
        except AzureError:
            return None

    def token(self) -> str:
        """For Resource Manager: whether one can be had tells whether somebody is signed in.

        Raises:
            SignInError: nobody is.
        """
        with self.errors("sign-in"):
            return self.credential.get_token(self._scope).token

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn Azure's errors inside of it into ours.

        Args:
            what: was asked for, by its name, such as "job NAME".

        Raises:
            RequestError: one of its kinds by what went wrong.
        """
        try:
            yield
        except UserError:
            raise
        except AzureError as error:
            raise explained(error, what, self.outputs, self.who) from error

    @cached_property
    def _manager(self) -> str:
        """Address of Resource Manager, without a slash at its end."""
        metadata = os.environ.get("ARM_CLOUD_METADATA_URL")
        if metadata is None:
            return _PUBLIC
        clouds = self._ask("GET", metadata, None, signed=False)
        addresses = [str(cloud["resourceManager"]).rstrip("/") for cloud in clouds]
        # As the SDK does it, so that both speak to the same cloud.
        return next((one for one in addresses if metadata.startswith(one)), _PUBLIC)

    @cached_property
    def _run_history(self) -> str:
        found = self.arm("GET", self.id)
        addresses = self._ask("GET", found["properties"]["discoveryUrl"], None, signed=False)
        return str(addresses["api"]).rstrip("/")

    @property
    def _scope(self) -> str:
        return f"{self._manager}/.default"

    @cached_property
    def _signed(self) -> PipelineClient[Any, Any]:
        bearer = policies.BearerTokenCredentialPolicy(self.credential, self._scope)
        return pipeline(bearer)

    @cached_property
    def anonymous(self) -> PipelineClient[Any, Any]:
        """For addresses that need no sign-in, or hold a signature of their own."""
        return pipeline()

    def _ask(self, method: str, url: str, body: object, *, signed: bool = True) -> Any:
        request = HttpRequest(method, url, json=body)
        with self.errors(thing_at(url)):
            client = self._signed if signed else self.anonymous
            response = client.send_request(request)
            if response.status_code >= 400:
                raise HttpResponseError(response=response)
            return read_json(response.content, url)


def _ways() -> dict[str, Any]:
    """Arguments of a credential: which ways to sign in are tried."""
    return {
        "exclude_interactive_browser_credential": True,
        "exclude_shared_token_cache_credential": True,
        "exclude_visual_studio_code_credential": True,
        "exclude_powershell_credential": True,
        "exclude_broker_credential": True,
        # Another authority is not known to Microsoft's list of them, which would be asked first.
        "disable_instance_discovery": _authority() not in _MICROSOFT,
    }


def _authority() -> str:
    host = os.environ.get("AZURE_AUTHORITY_HOST", _MICROSOFT[0])
    return urlsplit(host if "//" in host else f"//{host}").netloc
