"""HTTP requests and responses of this Azure's services."""

import json
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rehearsal.errors import AzureError


@dataclass(frozen=True)
class Request:
    """A request."""

    method: str
    path: str
    """Decoded path."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by their names in lower case."""
    body: bytes = b""
    target: str = ""
    """Path and query as sent."""
    caller: str = ""
    """Client id of the program that sent it; empty until it is known."""

    @property
    def query_string(self) -> str:
        """The query as sent, without its question mark; may be empty."""
        return self.target.partition("?")[2]

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object.

        Raises:
            AzureError: the body is not a JSON object.
        """
        try:
            content = json.loads(self.body or b"{}")
        except ValueError as error:
            raise AzureError(
                400, "InvalidRequestContent", f"The request content was invalid: {error}"
            ) from error
        if not isinstance(content, dict):
            raise AzureError(400, "InvalidRequestContent", "The request content must be an object")
        return content

    def form(self) -> dict[str, str]:
        """Return the fields of a posted form."""
        return dict(urllib.parse.parse_qsl(self.body.decode()))


@dataclass(frozen=True)
class Response:
    """A response. Its body is sent as JSON, unless it is bytes."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Whether the connection is closed without a response."""


Respond: TypeAlias = Callable[[Request], Response]
"""A service: responds to a request, or raises an AzureError."""
