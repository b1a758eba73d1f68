"""Requests and answers, as the services of this Azure see them."""

import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.errors import AzureError


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes = b""
    target: str = ""
    """Path and query as they were sent."""
    caller: str = ""
    """Client id of who asks; empty before that is known."""

    def json(self) -> dict[str, Any]:
        """The body, which must be an object.

        Raises:
            AzureError: it is none.
        """
        try:
            found = json.loads(self.raw or b"{}")
        except ValueError as error:
            raise AzureError(
                400, "InvalidRequestContent", f"The request content was invalid: {error}"
            ) from error
        if not isinstance(found, dict):
            raise AzureError(400, "InvalidRequestContent", "The request content must be an object")
        return found

    def form(self) -> dict[str, str]:
        """The body of a posted form."""
        return dict(urllib.parse.parse_qsl(self.raw.decode()))


@dataclass(frozen=True)
class Answer:
    """An answer: JSON, unless the body is bytes."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection without an answer."""
