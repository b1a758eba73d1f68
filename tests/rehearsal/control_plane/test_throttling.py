"""Resource Manager's rates, by a clock of the test."""

from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.throttling import BUCKETS, Throttling

GROUP = "/subscriptions/one/resourceGroups/rg"


def test_a_client_that_asks_too_often_waits_and_others_do_not():
    now = [0.0]
    manager = Throttling(lambda _: Response(200), lambda: now[0])

    def status(method="GET", caller="me", path=GROUP):
        return manager.respond(Request(method, path, caller=caller)).status

    size, rate = BUCKETS["reads"]
    assert {status() for _ in range(size)} == {200}
    refused = manager.respond(Request("GET", GROUP, caller="me"))
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})
    assert refused.body["error"]["code"] == "SubscriptionRequestsThrottled"
    others = (
        status("PUT"),
        status("DELETE"),
        status(caller="you"),
        status(path="/subscriptions/two"),
    )
    assert set(others) == {200}
    assert status(path="/tenants") == 200
    now[0] = 1.0
    assert [status() for _ in range(int(rate) + 1)] == [200] * int(rate) + [429]
