"""A preview in words: which resources change how, and no value."""

import pytest

from jobs.errors import PlatformReadError
from jobs.pulumi import changes
from jobs.pulumi.changes import Change

ACCOUNT = "azure-native:storage:StorageAccount"
CLUSTER = "azure-native:machinelearningservices:Compute"


def step(op, name, kind=ACCOUNT, differ=(), custom=True):
    state = {"type": kind, "custom": custom, "inputs": {"password": "hush"}}
    side = {"oldState": state} if op == "delete" else {"newState": state}
    return {
        "op": op,
        "urn": f"urn:pulumi:dev::p::platform$Parent${kind}::{name}",
        **side,
        "detailedDiff": {path: {"kind": "update", "inputDiff": True} for path in differ} or None,
    }


STEPS = {
    "steps": [
        step("same", "stays"),
        step("create", "group of others", kind="platform:Network", custom=False),
        step("update", "data", differ=["tags.owner", "properties.minimumTlsVersion"]),
        step("create", "new"),
        step("create-replacement", "gpu", kind=CLUSTER),
        step("replace", "gpu", kind=CLUSTER, differ=["properties.vmSize"]),
        step("delete-replaced", "gpu", kind=CLUSTER),
        step("delete", "old"),
    ]
}


def test_what_is_lost_comes_first_and_each_resource_once():
    assert changes.read(STEPS) == [
        Change("old", ACCOUNT, "delete", ()),
        Change("gpu", CLUSTER, "replace", ("properties.vmSize",)),
        Change("new", ACCOUNT, "create", ()),
        Change("data", ACCOUNT, "update", ("properties.minimumTlsVersion", "tags.owner")),
    ]


def test_the_comment_warns_of_what_is_lost_and_shows_no_value():
    text = changes.preview_markdown("dev", changes.read(STEPS))
    assert text.splitlines()[0] == changes.marker("dev")
    assert "1 to delete, 1 to replace, 1 to create, 1 to update." in text
    assert "**Deletes or replaces 2 resources**: `old`, `gpu`" in text
    assert f"| update | `data` | {ACCOUNT} | properties.minimumTlsVersion, tags.owner |" in text
    assert "hush" not in text
    assert "stays" not in text


def test_a_comment_fits_into_what_github_accepts():
    many = [step("update", f"a{i}" * 20, differ=[f"p{n}" for n in range(40)]) for i in range(500)]
    text = changes.preview_markdown("dev", changes.read({"steps": many}))
    assert len(text) < 65_536
    shown = text.count("| update |")
    assert f"{500 - shown} further resources are left out." in text
    assert shown > 100
    assert "p17, p18, p19 and 28 more" in text


def test_nothing_changes():
    assert changes.read({"steps": [step("same", "stays"), step("refresh", "stays")]}) == []
    assert changes.read({}) == []
    assert "no changes." in changes.preview_markdown("dev", [])
    assert "No drift." in changes.drift_markdown("dev", [])


def test_drift_is_told_with_resources_and_properties():
    found = changes.read({"steps": [step("update", "data", differ=["tags"]), step("delete", "x")]})
    assert changes.drift_lines(found) == [
        f"x ({ACCOUNT}): does not exist any more",
        f"data ({ACCOUNT}): differs in tags",
    ]


@pytest.mark.parametrize("document", [{"steps": [{}]}, {"steps": [3]}, {"steps": 3}])
def test_another_form_is_an_error_with_words(document):
    with pytest.raises(PlatformReadError, match="unexpected format"):
        changes.read(document)
