"""Versions of assets."""

from tests.rehearsal.support.small_platform import WORKSPACE


def test_a_version_never_changes(client):
    version = f"{WORKSPACE}/environments/fixed/versions/1"
    assert client.put(version, {"properties": {"image": "a"}}).status_code == 201
    assert client.put(version, {"properties": {"image": "a"}}).status_code == 201
    assert client.put(version, {"properties": {"image": "b"}}).status_code == 409
    latest = client.get(f"{WORKSPACE}/environments/fixed").json()["properties"]
    assert latest["latestVersion"] == "1"
