"""Requests to Resource Manager that tests send by jobs/ and by the simulator's provider.

A test fails if it sends a kind of request that is not in tools/conformance/requests.json, and that
no stack of `make -C tools conformance` sends: Azure's generated servers have not judged it. With
`RECORD_REQUESTS=1`, and `-n 0`, it is added to the file instead. The fixtures belong in a conftest.
`python -m tests.requests_sent cycle` runs `python -m rehearsal cycle` under the same condition.
"""

import json
import os
import re
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

import pytest

from jobs.azure.sign_in import PRODUCT
from rehearsal import __main__ as rehearsal
from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.control_plane.request_log import RequestLog
from rehearsal.pulumi.provider.arm_client import USER_AGENT
from tools.conformance.sent import STACKS, Sent, declared, life, recorded, write

_OURS = (f"{PRODUCT} ", USER_AGENT)
"""Beginnings of the names of our clients; tests have others."""
_log = RequestLog.log
_sent: dict[str, Sent] = {}
"""One accepted request of each kind that was not checked yet."""
_operations: set[str] = set()
"""Paths of the operations that answers have named. Azure chooses them, so that a client sends
requests to them as they are, and no specification has them."""


@pytest.fixture(scope="session", autouse=True)
def noted_requests() -> Iterator[None]:
    """Note requests from the first test on, also those of fixtures that tests share."""
    with noted():
        yield
    check()


@pytest.fixture(autouse=True)
def judged_requests(noted_requests: None) -> Iterator[None]:
    """Fail if a kind of request was sent that was never judged."""
    del noted_requests
    yield
    check()


def main(arguments: Sequence[str]) -> int:
    """Run a command of `python -m rehearsal`; return its exit status, or 1 if it sends a kind of
    request that was never judged.
    """
    with noted():
        status = rehearsal.main(arguments)
    try:
        check()
    except AssertionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status


@contextmanager
def noted() -> Iterator[None]:
    """Note the requests to all simulators of this process."""
    # Two folders of tests may each have the fixtures.
    with patch.object(RequestLog, "log", _logged):
        yield


def note(one: Sent) -> None:
    """Note a request, also one to something else in the place of the simulator."""
    _sent.setdefault(one.kind, one)


def _logged(self: RequestLog, request: Request, respond: Respond) -> Response:
    response = _log(self, request, respond)
    for header in ("Azure-AsyncOperation", "Location"):
        path = urllib.parse.urlsplit(response.headers.get(header, "")).path
        if path != request.path:
            _operations.add(path)
    if request.path in _operations:
        return response
    named = request.headers.get("user-agent", "").startswith(_OURS)
    if named and request.path.startswith("/subscriptions") and 0 < response.status < 400:
        query = dict(urllib.parse.parse_qsl(request.query_string))
        version = query.pop("api-version", "")
        # The simulator has another port each time.
        text = re.sub(rb"(//127\.0\.0\.1):\d+", rb"\1", request.body)
        body = json.loads(text) if text else None
        path = request.target.partition("?")[0]
        note(Sent(request.method, path, urllib.parse.urlencode(query), version, body))
    return response


def check() -> None:
    """Fail if a kind of request was sent since the last check that was never judged.

    Raises:
        AssertionError: the message names the kinds.
    """
    sent = _sent.copy()
    for kind in sent:
        del _sent[kind]
    new = sent.keys() - recorded_kinds()
    for stack in STACKS:
        # It takes seconds, so only if it matters.
        new = new and new - kinds_of_stack(stack)
    if new and os.environ.get("RECORD_REQUESTS"):
        write([*recorded(), *(sent[kind] for kind in new)])
        recorded_kinds.cache_clear()
    elif new:
        raise AssertionError(
            f"not in tools/conformance/requests.json: run RECORD_REQUESTS=1, -n 0: {sorted(new)}"
        )


@cache
def recorded_kinds() -> frozenset[str]:
    """Return the kinds in requests.json."""
    return frozenset(one.kind for one in recorded())


@cache
def kinds_of_stack(stack: str) -> frozenset[str]:
    """Return the kinds of request that the simulator's provider sends for one of the STACKS."""
    return frozenset(one.kind for row in declared(stack) for one in life(*row))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
