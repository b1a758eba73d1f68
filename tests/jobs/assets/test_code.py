"""Code is uploaded once per content, and registered when it is complete."""

import os

import pytest

from jobs.assets import code
from jobs.azure.requests import segment
from jobs.azure.storage import client, listed
from jobs.azure.workspace import connect
from jobs.errors import ConflictError, RequestError
from jobs.spec.code_snapshot import CodeSnapshot
from tests.jobs.support.live import sdk


@pytest.fixture
def contents():
    """Return a snapshot with content that no earlier test has uploaded."""
    return {
        "trainer/__init__.py": os.urandom(16),
        "trainer/deep/er.py": b"x = 1\n",
        "common/empty.py": b"",
    }


def upload(live, contents):
    return code.upload(connect(live.outputs).manager, CodeSnapshot(contents))


def sent(live):
    """Return the uploaded files."""
    return [r for r in puts(live) if r.status == 201]


def puts(live):
    """Return the requests to upload a file."""
    return [r for r in live.azure.requests if r.method == "PUT" and "/code/" in r.path]


def test_code_is_registered_with_all_of_its_files(live, contents):
    name = f"trainer-{CodeSnapshot(contents).digest}"
    identifier = upload(live, contents)
    assert identifier == f"{live.workspace}/codes/{segment(name)}/versions/1"
    registered = live.azure.resources.get(identifier)["properties"]
    container, _, folder = registered["codeUri"].rpartition("/")
    store = connect(live.outputs).storage
    files = client(container, store._credential)
    assert {name: blob.size for name, blob in listed(files, folder).items()} == {
        name: len(content) for name, content in contents.items()
    }
    # As those see it who submit by the SDK.
    assert sdk(live)._code.get(name, "1").path == registered["codeUri"]


def test_the_same_code_is_not_sent_again(live, contents):
    first = upload(live, contents)
    assert len(sent(live)) == len(contents)
    live.azure.admin.forget_requests()
    assert upload(live, contents) == first
    assert sent(live) == []
    assert upload(live, {**contents, "new.py": b""}) != first


def test_code_that_was_sent_in_part_is_not_registered(live, contents):
    live.azure.admin.fault("PUT .*/code/trainer/deep", status=403, code="AuthorizationFailure")
    with pytest.raises(RequestError, match="the code of the job"):
        upload(live, contents)
    assert not [r for r in live.azure.requests if r.method == "PUT" and "/versions/1" in r.path]
    assert upload(live, contents)


def test_code_is_sent_as_the_user_because_the_account_refuses_signatures_by_its_key(live, contents):
    live.azure.admin.forget_requests()
    assert upload(live, contents)
    refused = [one for one in puts(live) if one.status == 403]
    assert {one.caller for one in refused} == {""}
    assert {one.caller for one in sent(live)} == {live.azure.environment["AZURE_CLIENT_ID"]}


@pytest.fixture
def accepts_keys(live):
    """Let the account of the code accept its keys, as those of others may."""
    account = live.azure.resources.get(live.workspace)["properties"]["storageAccount"]
    live.azure.resources.update(account, {"allowSharedKeyAccess": True})
    yield
    live.azure.resources.update(account, {"allowSharedKeyAccess": False})


@pytest.mark.usefixtures("accepts_keys")
def test_code_is_sent_to_the_signed_address_where_the_account_accepts_its_keys(live, contents):
    live.azure.admin.forget_requests()
    assert upload(live, contents)
    assert {(one.caller, one.status) for one in puts(live)} == {("", 201)}


def test_two_who_send_the_same_code_at_once_share_it(live, contents, monkeypatch):
    manager = connect(live.outputs).manager
    put = manager.put

    def late(path, body):
        put(path, body)
        raise ConflictError("somebody else was faster")

    monkeypatch.setattr(manager, "put", late)
    assert code.upload(manager, CodeSnapshot(contents)) == upload(live, contents)
