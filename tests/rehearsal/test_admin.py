"""The controls that a test has of the simulator: let requests fail, and read which came."""

import time

import pytest
import requests

from tests.rehearsal.support.small_platform import CLUSTER, WORKSPACE, error


def test_a_fault_happens_to_its_requests_and_to_no_other(client, azure):
    azure.admin.fault(r"GET .*/computes/cluster", status=503, retry_after=7, times=2, after=1)
    statuses = [client.get(CLUSTER).status_code for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    assert client.get(WORKSPACE).status_code == 200


def test_a_fault_says_when_to_come_again(client, azure):
    azure.admin.fault("workspaces/ws", status=429, code="TooManyRequests", retry_after=7)
    answer = client.get(WORKSPACE)
    assert error(answer) == (429, "TooManyRequests")
    assert answer.headers["Retry-After"] == "7"


def test_a_fault_cuts_or_delays(client, azure):
    azure.admin.fault("workspaces/ws", cut=True)
    with pytest.raises(requests.ConnectionError):
        client.get(WORKSPACE)
    azure.admin.fault("workspaces/ws", delay=0.3)
    began = time.monotonic()
    assert client.get(WORKSPACE).status_code == 200
    assert time.monotonic() - began >= 0.3


def test_a_program_without_a_role_is_refused_and_others_are_not(client, azure):
    other, secret = azure.identity.add_client()
    azure.admin.forbid(other, "computes/cluster")
    assert client.get(CLUSTER).status_code == 200
    token = client.token(client_id=other, client_secret=secret).json()["access_token"]
    client.session.headers["Authorization"] = f"Bearer {token}"
    assert error(client.get(CLUSTER)) == (403, "AuthorizationFailed")
    assert client.get(WORKSPACE).status_code == 200


def test_requests_are_logged_with_who_sent_them(client, azure):
    azure.admin.forget_requests()
    client.get(CLUSTER)
    request = azure.requests[-1]
    assert (request.method, request.status) == ("GET", 200)
    assert request.path == CLUSTER
    assert request.query == "api-version=2024-10-01"
    assert request.caller == azure.environment["AZURE_CLIENT_ID"]


def test_all_that_an_admin_can_do_is_also_a_route(client):
    body = {"match": "computes/cluster", "status": 500}
    assert client.ask("POST", "/admin/fault", body).status_code == 200
    assert client.get(CLUSTER).status_code == 500
    logged = client.get("/admin/requests").json()["value"]
    assert logged[-1]["status"] == 500
    assert client.ask("POST", "/admin/nothing", {}).status_code == 404
    assert client.ask("POST", "/admin/respond", {}).status_code == 404
    assert client.ask("POST", "/admin/scheduler", {}).status_code == 404
    assert client.ask("POST", "/admin/fault", {"unknown": 1}).status_code == 400


def test_an_admin_needs_a_token(client):
    client.session.headers.pop("Authorization")
    assert error(client.get("/admin/requests")) == (401, "AuthenticationFailed")
