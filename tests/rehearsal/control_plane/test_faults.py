"""Faults take the place of a service's response, before or after the service has worked."""

import pytest

from rehearsal.control_plane.faults import Fault, Faults
from rehearsal.control_plane.http_messages import Request, Response

REQUEST = Request("PUT", "/jobs/a", target="/jobs/a?x=1")


@pytest.fixture
def done():
    return []


@pytest.fixture
def respond(done):
    """Return a function that meets a request with a fault; `done` lists the requests that were
    carried out."""

    def service(request):
        done.append(request.path)
        return Response(201, {"name": "a"})

    def answer(**values):
        faults = Faults()
        faults.add(Fault("PUT /jobs/a", **values))
        first = faults.respond(REQUEST, service)
        assert faults.respond(REQUEST, service).status == 201
        done.pop()
        return first

    return answer


def test_a_page_of_a_proxy_takes_the_place_of_the_response(respond, done):
    response = respond(body="<html>sign in</html>")
    assert (response.status, response.body) == (200, b"<html>sign in</html>")
    assert done == []
    assert respond(body="[]", status=502).status == 502


def test_a_request_may_be_carried_out_before_its_response_is_lost(respond, done):
    assert respond(cut=True, carried_out=True).cut
    assert done == ["/jobs/a"]
    assert respond(cut=True).cut
    assert done == ["/jobs/a"]


def test_a_fault_without_a_response_of_its_own_only_delays(respond, done):
    assert respond(delay=0.001).status == 201
    assert done == ["/jobs/a"]


def test_a_refusal_has_azures_form(respond, done):
    response = respond(status=409, code="Conflict", retry_after=3)
    assert response.headers == {"Retry-After": "3"}
    assert response.body["error"]["code"] == "Conflict"
    assert done == []
