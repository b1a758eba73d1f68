"""How requests are sent, and what is called by which address."""

import json
import sys
from typing import Any, Final
from urllib.parse import quote, urlsplit

from azure.core import PipelineClient
from azure.core.pipeline import policies

from jobs.errors import RequestError

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
RETRIES: Final = 6
"""Of what is refused for a moment. The pauses between double: half a minute in all, unless Azure
asks for others by Retry-After.
"""
LONGEST_PAUSE: Final = 60.0
"""Seconds, whatever Azure asks for."""
TOLD_PAUSE: Final = 5.0
"""Seconds of a pause from which on a person is told why nothing happens."""


class ToldRetries(policies.RetryPolicy[Any, Any]):
    """Repeats requests, without a pause that is silent and long."""

    def get_retry_after(self, response: Any) -> float | None:
        """Seconds that an answer asks to wait, within reason."""
        asked = super().get_retry_after(response)
        if not asked:
            return asked
        pause = min(asked, LONGEST_PAUSE)
        _tell(f"busy (status {response.http_response.status_code})", pause)
        return pause

    def get_backoff_time(self, settings: dict[str, Any]) -> float:
        """Seconds to wait where nothing was asked for."""
        pause = super().get_backoff_time(settings)
        _tell("not answering as it should", pause)
        return pause


def segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def pipeline(
    *auth: policies.SansIOHTTPPolicy[Any, Any] | policies.HTTPPolicy[Any, Any],
) -> PipelineClient[Any, Any]:
    """Sends requests, and repeats what may succeed in a moment.

    Args:
        auth: what signs each request, if anything does.
    """
    # A host that does not answer is given up soon; one that says it is busy is waited for.
    retry = ToldRetries(
        retry_total=RETRIES,
        retry_connect=2,
        retry_read=3,
        retry_status=RETRIES,
        retry_backoff_factor=0.5,
    )
    return PipelineClient(
        "",
        policies=[
            policies.RequestIdPolicy(),
            policies.HeadersPolicy(),
            policies.UserAgentPolicy("ml-azure-horovod"),
            retry,
            *auth,
        ],
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
    )


def thing_at(url: str) -> str:
    """What a person calls the thing at an address: the kind and name at its end."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    if len(parts) > 1 and parts[-1] in ("details", "cancel", "listNodes"):
        parts.pop()
    if len(parts) > 3 and parts[-2] == "versions":
        *parts, kind, name, _, version = parts
        parts += [kind, f"{name}:{version}"]
    return f"{parts[-2].rstrip('s')} {parts[-1]}" if len(parts) > 1 else urlsplit(url).netloc


def read_json(content: bytes, url: str) -> Any:
    """What an answer holds; none if it is empty.

    Args:
        content: of the answer.
        url: that was asked.

    Raises:
        RequestError: it is not Azure that answers.
    """
    try:
        return json.loads(content) if content else None
    except ValueError as error:
        raise RequestError(
            f"{thing_at(url)}: {urlsplit(url).netloc} answers, but not as Azure does (no JSON); is"
            " a proxy or a sign-in page of the network between?"
        ) from error


def _tell(state: str, pause: float) -> None:
    if pause > TOLD_PAUSE:
        print(f"Azure is {state}; asking again in {pause:.0f} s", file=sys.stderr, flush=True)
