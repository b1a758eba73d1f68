"""Blob storage takes tokens, and is slow, away or closed to a principal when a test wants it."""

import pytest
import requests

from tests.rehearsal.support.small_platform import ACCOUNT


def test_blobs_take_a_token_of_this_azure_and_no_key(client, azure, results):
    url = f"{azure.blob_endpoint('teststore')}results?restype=container&comp=list"
    headers = client.storage_headers()
    assert client.session.get(url, headers=headers).status_code == 200
    headers["Authorization"] = f"{headers['Authorization'][:-4]}AAAA"
    assert client.session.get(url, headers=headers).status_code == 401
    headers["Authorization"] = "SharedKey teststore:AAAA"
    assert client.session.get(url, headers=headers).status_code == 403
    headers["Authorization"] = None
    assert client.session.get(url, headers=headers).status_code in {401, 403, 404}
    assert client.ask("POST", f"{ACCOUNT}/listKeys").json() == {"keys": []}


def test_storage_can_refuse_an_identity(client, azure):
    azure.admin.fault("PUT /teststore/results/", status=403, code="AuthorizationPermissionMismatch")
    headers = client.storage_headers()
    url = f"{azure.blob_endpoint('teststore')}results/a%20b.txt"
    answer = client.session.put(url, data=b"x", headers=headers)
    assert answer.status_code == 403
    assert answer.headers["x-ms-error-code"] == "AuthorizationPermissionMismatch"
    assert client.session.put(url, data=b"x", headers=headers).status_code == 201
    assert client.session.get(url, headers=headers).content == b"x"


def test_a_name_with_a_question_mark_is_logged_whole(client, azure):
    url = f"{azure.blob_endpoint('teststore')}results/why%3F.txt"
    assert client.session.put(url, data=b"x", headers=client.storage_headers()).status_code == 201
    assert azure.requests[-1].path == "/teststore/results/why?.txt"


def test_the_blob_server_comes_back_with_its_data(client, azure, results):
    results.upload_blob("durable.txt", b"kept", overwrite=True)
    headers = client.storage_headers()
    url = f"{azure.blob_endpoint('teststore')}results/durable.txt"
    azure.admin.kill_blob_server()
    with pytest.raises(requests.ConnectionError):
        client.session.get(url, headers=headers)
    azure.admin.start_blob_server()
    assert client.session.get(url, headers=headers).content == b"kept"
