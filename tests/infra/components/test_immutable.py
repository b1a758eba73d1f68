"""Changes that Azure would not make are refused with a reason, before they are tried."""

import json

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.components.immutable import ChangeError, ImmutableProperty, refusals
from infra.resources import value_at
from tests.infra.support.stacks import ran, rendered

IMMUTABLE = (
    ImmutableProperty("a.b", "made once"),
    ImmutableProperty("on", "stays on", may_be_set_later=True),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)

GUARDED = [
    # stack, hook, path, another value, words of the reason
    ("dev", "workspace", "hbiWorkspace", False, "another name"),
    ("dev", "workspace", "storageAccount", "other", "another name"),
    ("dev", "workspace", "keyVault", "other", "another name"),
    ("dev", "workspace", "enableDataIsolation", True, "another name"),
    ("dev", "storage-data", "kind", "StorageV2", "copy the data"),
    ("dev", "storage-default", "encryption.requireInfrastructureEncryption", False, "copy"),
    ("dev", "registry", "zoneRedundancy", "Enabled", "workspace fails without this"),
    ("prod", "vault", "properties.enablePurgeProtection", None, "cannot be disabled once enabled"),
    (
        "dev",
        "vault",
        "properties.softDeleteRetentionInDays",
        90,
        "vault.soft_delete_retention_days",
    ),
]


def copied(inputs, path, other):
    changed = json.loads(json.dumps(inputs))
    *groups, last = path.split(".")
    inner = changed
    for group in groups:
        inner = inner[group]
    inner[last] = other
    return changed


def declared(stack, name):
    [one] = [
        one
        for one in rendered(stack)
        if one.options.get("hooks", {}).get("before_update") == [f"refuse-changes-{name}"]
    ]
    return one


def call(stack, name, old, new):
    one = declared(stack, name)
    args = pulumi.ResourceHookArgs(
        urn="", id=one.id, name=one.name, type=one.type, old_inputs=old, new_inputs=new
    )
    ran(stack).hooks[f"refuse-changes-{name}"](args)


@pytest.mark.parametrize(("stack", "name", "path", "other", "reason"), GUARDED)
def test_a_change_that_azure_would_keep_quiet_about_is_refused(stack, name, path, other, reason):
    inputs = declared(stack, name).inputs
    assert value_at(inputs, path) is not None
    with pytest.raises(ChangeError, match=path) as caught:
        call(stack, name, inputs, copied(inputs, path, other))
    assert reason in str(caught.value)


@pytest.mark.parametrize("name", ["workspace", "storage-data", "storage-default", "registry"])
def test_a_change_of_tags_is_let_through(name):
    inputs = declared("dev", name).inputs
    call("dev", name, inputs, inputs | {"tags": {"owner": "other"}})


def test_purge_protection_may_be_switched_on_later():
    inputs = declared("dev", "vault").inputs
    call("dev", "vault", inputs, copied(inputs, "properties.enablePurgeProtection", True))


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_the_engine_asks_in_a_preview_too_and_stops_at_a_refusal(stack):
    hooks = ran(stack).hooks
    assert len(hooks) == 5
    for hook in hooks.values():
        assert hook.opts.on_dry_run
        assert not hook.opts.ignore_errors


def test_all_refusals_come_at_once():
    found = refusals("it", {"a": {"b": 1}, "on": True}, {"a": {"b": 2}}, IMMUTABLE)
    assert found == [
        "it: a.b cannot change from 1 to 2: made once",
        "it: on cannot change from True to None: stays on",
    ]


def test_whole_numbers_are_shown_as_they_were_given():
    (found,) = refusals("it", {"a": {"b": 7.0}}, {"a": {"b": 30.5}}, IMMUTABLE)
    assert "from 7 to 30.5" in found


@given(inputs=st.dictionaries(st.sampled_from(["a", "on"]), JSON))
def test_what_does_not_change_is_never_refused(inputs):
    assert refusals("it", inputs, json.loads(json.dumps(inputs)), IMMUTABLE) == []


@given(old=JSON, new=JSON)
def test_what_must_not_change_is_refused_exactly_when_it_does(old, new):
    found = refusals("it", {"a": {"b": old}}, {"a": {"b": new}}, IMMUTABLE)
    assert bool(found) == (old != new)
