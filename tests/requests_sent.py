"""Notes the requests to Resource Manager that tests make the commands of jobs/ send.

A kind of request that is not in conformance/requests.json has not been judged by Azure's generated
servers, and fails the tests of the package. `RECORD_REQUESTS=1` adds it to the file instead.
"""

import json
import os
import urllib.parse

import pytest

from conformance.sent import Sent, recorded, write
from rehearsal.control_plane.request_log import RequestLog

_log = RequestLog.log
SENT: dict[str, Sent] = {}


def logged(self, request, respond):
    response = _log(self, request, respond)
    if request.path.startswith("/subscriptions/") and 0 < response.status < 400:
        query = dict(urllib.parse.parse_qsl(request.query_string))
        version = query.pop("api-version", "")
        body = json.loads(request.body) if request.body else None
        path = request.target.partition("?")[0]
        one = Sent(request.method, path, urllib.parse.urlencode(query), version, body)
        SENT.setdefault(one.kind, one)
    return response


@pytest.fixture(scope="package", autouse=True)
def judged_requests():
    """Fail if a command has sent a kind of request that was never judged."""
    RequestLog.log = logged
    yield
    RequestLog.log = _log
    known = {one.kind: one for one in recorded()}
    if os.environ.get("RECORD_REQUESTS"):
        write([*SENT.values(), *known.values()])
    else:
        new = sorted(SENT.keys() - known.keys())
        assert not new, f"not in conformance/requests.json: run with RECORD_REQUESTS=1, -n 0: {new}"
