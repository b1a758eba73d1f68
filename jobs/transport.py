"""How requests are sent, and what is called by which address."""

import json
from typing import Any, Final
from urllib.parse import quote, urlsplit

from azure.core import PipelineClient
from azure.core.pipeline import policies

from jobs.errors import RequestError

CONNECT_SECONDS: Final = 10
READ_SECONDS: Final = 60
RETRIES: Final = 6
"""Of what is refused for a moment; with the pauses between, half a minute in all."""


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
    retry = policies.RetryPolicy(
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
