"""Notes the requests to Resource Manager that jobs/ and the simulator's provider send.

A kind of request that is not in conformance/requests.json, and that no stack of `make conformance`
sends, has not been judged by Azure's generated servers, and fails the tests of the package.
`RECORD_REQUESTS=1` adds it to the file instead.
"""

import json
import os
import re
import urllib.parse
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from conformance.sent import STACKS, Sent, declared, life, recorded, write
from jobs.azure.sign_in import PRODUCT
from rehearsal.control_plane.http_messages import Request, Respond, Response
from rehearsal.control_plane.request_log import RequestLog
from rehearsal.pulumi.provider.arm_client import USER_AGENT

_OURS = (f"{PRODUCT} ", USER_AGENT)
"""Beginnings of the names of our clients; tests have others."""


@pytest.fixture(scope="package", autouse=True)
def judged_requests() -> Iterator[None]:
    """Fail at the end if a kind of request was sent that was never judged."""
    log, sent = RequestLog.log, dict[str, Sent]()

    def logged(self: RequestLog, request: Request, respond: Respond) -> Response:
        response = log(self, request, respond)
        named = request.headers.get("user-agent", "").startswith(_OURS)
        if named and request.path.startswith("/subscriptions/") and 0 < response.status < 400:
            query = dict(urllib.parse.parse_qsl(request.query_string))
            version = query.pop("api-version", "")
            # The simulator has another port each time.
            text = re.sub(rb"(//127\.0\.0\.1):\d+", rb"\1", request.body)
            body = json.loads(text) if text else None
            path = request.target.partition("?")[0]
            one = Sent(request.method, path, urllib.parse.urlencode(query), version, body)
            sent.setdefault(one.kind, one)
        return response

    with patch.object(RequestLog, "log", logged):
        yield
    known = {one.kind: one for one in recorded()}
    new = sent.keys() - known.keys()
    if new:
        # It takes seconds, so only if it matters.
        new -= {one.kind for stack in STACKS for row in declared(stack) for one in life(*row)}
    if new and os.environ.get("RECORD_REQUESTS"):
        write([*known.values(), *(sent[kind] for kind in new)])
    elif new:
        raise AssertionError(
            f"not in conformance/requests.json: run with RECORD_REQUESTS=1, -n 0: {sorted(new)}"
        )
