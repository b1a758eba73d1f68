"""Requests have kinds without names, and a stack becomes a template that other tools read."""

from rehearsal.pulumi.provider import types
from tools.conformance import stacks
from tools.conformance.sent import Sent, life, recorded

GROUP = "/subscriptions/s/resourceGroups/g"
ACCOUNT = f"{GROUP}/providers/Microsoft.Storage/storageAccounts/a"


def test_a_kind_has_no_names_but_tells_actions_parameters_versions_and_variants_apart():
    sent = [
        Sent("GET", ACCOUNT, "", "1"),
        Sent("GET", ACCOUNT.replace("/a", "/b"), "", "1"),
        Sent("GET", ACCOUNT, "", "2"),
        Sent("GET", ACCOUNT.rpartition("/")[0], "", "1"),
        Sent("POST", f"{ACCOUNT}/listKeys", "", "1"),
        Sent("GET", ACCOUNT, "b=1&a=2", "1"),
        Sent("GET", "/subscriptions", "", "1"),
        Sent("PUT", ACCOUNT, "", "1", {"properties": {"jobType": "Command", "type": "a"}}),
        Sent("PUT", ACCOUNT, "", "1", {"properties": {"jobType": "Sweep", "instanceType": "a"}}),
    ]
    kinds = [one.kind for one in sent]
    assert kinds[0] == kinds[1] == "GET Microsoft.Storage/storageAccounts 1"
    assert kinds[5] == "GET Microsoft.Storage/storageAccounts ?a&b 1"
    assert kinds[6] == "GET Microsoft.Resources subscriptions 1"
    assert kinds[-1] == "PUT Microsoft.Storage/storageAccounts 1 jobType=Sweep"
    assert len(set(kinds)) == 8


def test_every_kind_is_recorded_once():
    kinds = [one.kind for one in recorded()]
    assert kinds == sorted(set(kinds))
    assert any(kind.startswith("PUT Microsoft.Storage/storageAccounts ") for kind in kinds)


def test_settings_that_end_with_their_parent_are_not_deleted():
    put = Sent("PUT", f"{ACCOUNT}/blobServices/default", "", "1", {"properties": {}})
    service = types.TYPES["storage:BlobServiceProperties"]
    assert [one.method for one in life(service, put)] == ["PUT", "GET"]
    account = life(types.TYPES["storage:StorageAccount"], put)
    assert [(one.method, one.body) for one in account][1:] == [("GET", None), ("DELETE", None)]


def test_a_template_has_types_and_names_of_all_levels(monkeypatch):
    container = f"{ACCOUNT}/blobServices/default/containers/c"
    put = Sent("PUT", container, "", "2023-05-01", {"properties": {"publicAccess": "None"}})
    monkeypatch.setattr(stacks, "declared", lambda stack: [(None, put)])
    assert stacks.template("dev")["resources"] == [
        {
            "type": "Microsoft.Storage/storageAccounts/blobServices/containers",
            "apiVersion": "2023-05-01",
            "name": "a/default/c",
            "properties": {"publicAccess": "None"},
        }
    ]
