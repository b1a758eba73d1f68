"""A stack's configuration is read strictly, and everything that is wrong is told at once."""

import dataclasses
import re
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import SettingsError
from infra.leaves import SETTINGS
from infra.settings import ClusterSettings
from infra.validation import load
from tests.infra.support.configurations import (
    NETWORK,
    STACKS,
    VAULT,
    configured,
    problem,
    problems,
    stack_file,
)


@pytest.mark.parametrize("stack", STACKS)
def test_the_stacks_of_the_repository_are_valid(stack):
    settings = load(stack_file(stack))
    assert settings.profile == "private"
    assert settings.clusters["gpu"].size == "Standard_ND40rs_v2"


def test_production_is_protected_and_cannot_be_purged():
    prod = load(stack_file("prod"))
    assert prod.protect
    assert prod.vault.purge_protection


def test_the_smallest_configuration_has_the_defaults_of_a_private_platform():
    settings = load(configured())
    assert settings.profile == "private"
    assert settings.network.existing is None
    assert list(settings.clusters) == ["gpu", "preparation", "build"]


def test_a_group_that_is_given_in_part_keeps_the_rest_of_its_default():
    settings = load(configured(("clusters.gpu.max_nodes", 1)))
    assert settings.clusters["gpu"] == dataclasses.replace(
        load(configured()).clusters["gpu"], max_nodes=1
    )


def test_a_stack_has_the_clusters_that_it_names_and_the_defaults_that_it_does_not_remove():
    t4 = {"size": "Standard_NC64as_T4_v3", "max_nodes": 3}
    settings = load(
        configured(
            ("clusters.gpu", None), ("clusters.t4", t4), ("subscription.low_priority_cores", 0)
        )
    )
    assert list(settings.clusters) == ["preparation", "build", "t4"]
    assert settings.clusters["t4"] == ClusterSettings(
        "Standard_NC64as_T4_v3", 3, duty="train", priority="dedicated"
    )


def test_an_unknown_key_says_which_was_probably_meant():
    assert problem(("locaton", "x")) == "locaton: unknown key; did you mean location?"
    assert problem(("network.adress_space", "10.0.0.0/16")).endswith(
        "did you mean network.address_space?"
    )


def test_an_unknown_key_like_no_other_lists_those_that_exist():
    found = problem(("registry.zzz", 1))
    assert found.startswith("registry.zzz: unknown key; known here: registry.untagged")


FORMER = [
    ("vault", "deleted_days", "soft_delete_retention_days"),
    ("storage", "deleted_days", "soft_delete_retention_days"),
    ("storage", "snapshot_days", "snapshot_retention_days"),
    ("registry", "untagged_days", "untagged_retention_days"),
    ("network", "vault_tag", "vault_service_tag"),
    ("clusters.gpu", "idle_seconds", "idle_seconds_before_scale_down"),
    ("monitoring", "insights", "application_insights"),
]


@pytest.mark.parametrize(("group", "before", "today"), FORMER)
def test_a_key_that_was_renamed_is_refused_with_its_name_of_today(group, before, today):
    assert problem((f"{group}.{before}", 1)) == f"{group}.{before}: is now called {group}.{today}"


def test_a_key_that_is_missing_says_what_to_give():
    values = configured()
    del values["budget"], values["location"]
    with pytest.raises(SettingsError) as caught:
        load(values)
    assert caught.value.problems == (
        "location: is missing; give a region's short name, such as westeurope",
        "budget: is missing; give a group of keys with emails, amount, start",
    )


def test_everything_that_is_wrong_is_told_at_once():
    found = problems(
        ("prefix", "Horovod"),
        ("profil", "private"),
        ("budget.emails", []),
        ("budget.amount", 0),
        ("network.address_space", "172.17.0.0/20"),
        ("clusters.gpu.size", "Standard_NC24rs_v3"),
        ("clusters.gpu.name", "gpu-8"),
        ("clusters.build.max_nodes", "two"),
        ("storage.soft_delete_retention_days", 400),
        ("tags.owner", ""),
    )
    assert sorted(text.partition(":")[0] for text in found) == [
        "budget.amount", "budget.emails", "clusters.build.max_nodes", "clusters.gpu.name",
        "clusters.gpu.size", "network.address_space", "prefix", "profil",
        "storage.soft_delete_retention_days", "tags.owner",
    ]  # fmt: skip


def test_the_message_counts_its_problems_and_has_a_line_for_each():
    with pytest.raises(SettingsError) as caught:
        load(configured(("prefix", "X"), ("budget.emails", [])))
    first, *lines = str(caught.value).splitlines()
    assert first == "2 problems in the stack's configuration:"
    assert all(line.startswith("  - ") for line in lines)
    assert len(lines) == 2


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def every_key(cls=SETTINGS, prefix=""):
    """All dotted keys of the settings, groups and their members."""
    for field in dataclasses.fields(cls):
        yield prefix + field.name
        hint = typing.get_type_hints(cls)[field.name]
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                yield from every_key(part, f"{prefix}{field.name}.")


@given(st.sampled_from(sorted(every_key())), data)
def test_whatever_is_written_under_a_key_is_taken_or_refused_with_a_key(key, value):
    told = ()
    try:
        load(configured((key, value)))
    except SettingsError as error:
        told = error.problems
    tops = {field.name for field in dataclasses.fields(SETTINGS)}
    assert {re.match(r"\w+", text)[0] for text in told} <= tops


NOBODY = "99999999-0000-4000-8000-000000000000"
WRONG = [
    ("prefix", "abcdefghijkl", "use a prefix of at most 10"),
    ("stack", "My_Stack", "must be lower-case letters, digits and single hyphens"),
    ("location", "West Europe", "must be a region's short name, such as westeurope"),
    ("protect", "yes", "'yes' is not true or false"),
    ("profile", "open", "'open' is not one of private, allowlisted"),
    ("tags", {"owner": "team"}, "every stack needs the tags owner and cost-center"),
    ("tags.a/b", "x", "can have at most 128 characters and none of % & / < > ?"),
    ("tags.owner", "x" * 257, "257 characters, but a tag value can have at most 256"),
    ("budget.start", "2026-12-15", "must be the first day of a month"),
    ("budget.start", 20261201, "20261201 is not a text"),
    ("budget.emails", ["nobody"], "'nobody' must be an e-mail address"),
    ("budget.emails", [], "give at least one e-mail address to notify"),
    ("budget.actual_percent", [50, 60, 70, 80, 90], "a budget accepts at most 5"),
    ("budget.actual_percent", [50, 50], "contains a percentage twice"),
    ("budget.forecast_percent", [], "give at least one percentage"),
    ("network.address_space", "172.17.0.0/20", "which the nodes' containers use"),
    ("network.address_space", "172.16.0.0/12", "which the nodes' containers use"),
    ("network.address_space", "10.0.0.0/26", "10.0.0.0/26 has 64 addresses, but the subnets need"),
    ("network.address_space", "wide", "write it like 10.64.0.0/22"),
    ("network.peer_address_spaces", ["10.64.1.0/24"], "overlaps 10.64.1.0/24, the range of"),
    ("network.peer_address_spaces", ["hub"], "'hub' is not a range like 10.0.0.0/16"),
    ("network.peer_with", [NETWORK], "network.peer_address_spaces: is empty"),
    ("network.peer_with", ["hub"], "must be a resource id /subscriptions/"),
    ("network.vault_service_tag", "KeyVault", "is not one of AzureKeyVault, Keyvault"),
    ("clusters.gpu.name", "gpu-8", "refuses; write 'gpu8', for example"),
    ("clusters.gpu.name", "g", "must be a letter, then 2 to 23 letters, digits"),
    ("clusters.build.size", "Standard_ND40rs_v2", "has 8 GPUs; choose one of Standard_D4ads_v5"),
    ("clusters.build.size", "Standard_DS3_v2", "closed to new subscriptions (July 2026); use"),
    ("clusters.gpu.size", "STANDARD_ND40RS_V2", "has the wrong case; write Standard_ND40rs_v2"),
    ("clusters.gpu.size", "Standard_ND48", "is not in the catalogue; choose one of"),
    ("clusters.gpu.max_nodes", 101, "a cluster with InfiniBand can have at most 100"),
    ("clusters.gpu.idle_seconds_before_scale_down", 1, "must be from 60 to 3600"),
    ("clusters.gpu_dedicated", {"max_nodes": 1}, "clusters.gpu_dedicated.size: is missing"),
    ("clusters.gpu.prioritiy", "low", "did you mean clusters.gpu.priority?"),
    ("clusters.gpuu", None, "clusters.gpuu: None is not a group of keys with size, max_nodes"),
    ("clusters.gpu.duty", "training", "'training' is not one of train, prepare, build"),
    ("clusters.gpu.duty", "prepare", "has 8 GPUs; choose one of Standard_D4ads_v5"),
    ("clusters.build", None, "clusters: none with the duty build, but a workspace builds"),
    ("clusters.preparation.duty", "build", "clusters: preparation, build with the duty build, but"),
    ("clusters.build.priority", "low", "does not resume when its node is pre-empted; use dedi"),
    ("clusters.t4-a", {"size": "Standard_NC4as_T4_v3", "max_nodes": 1}, "single underscores betw"),
    ("clusters", ["gpu"], "clusters: ['gpu'] is not a group of names, each with a group of keys"),
    ("subscription.sizes", ["standard_d4ads_v5", "Standard_D16ads_v5"], "is not listed in"),
    (
        "subscription.low_priority_cores",
        79,
        "79 cores, but with max_nodes running the clusters need 80",
    ),
    ("subscription.dedicated_cores", {"Dadsv5": 35}, "36 (clusters.preparation 32, clusters.b"),
    ("subscription.dedicated_cores", {"NDV2": 40}, "unknown series; the catalogue has"),
    ("allowed_addresses", ["20.103.0.7"], "the private profile allows no access from outside"),
    ("encryption.customer_managed_keys", True, "vault.purge_protection: must be true"),
    ("encryption.key_uri", "https://v.vault.azure.net/keys/k", "must be https://VAULT/keys/NAME"),
    ("protect", True, "vault.purge_protection: must be true when protect is true"),
    ("people.publishers", "the-team", "must be a GUID"),
    ("monitoring.retention_days", 7, "must be from 30 to 730"),
    ("registry.existing", VAULT, "must be a resource id"),
    ("budget.amount", 10**400, "is not a number"),
    ("budget.amount", float("nan"), "nan is not a number"),
    ("clusters.gpu.max_nodes", 2.5, "2.5 is not a whole number"),
    ("vault.soft_delete_retention_days", True, "True is not a whole number"),
    ("location", "chinaeast2", "is in another cloud, whose services have other addresses"),
    ("location", "usgovvirginia", "choose a region of Azure's public cloud"),
    ("ignored_tags", ["Owner"], "contains Owner, which the stack sets"),
    ("ignored_tags", ["managed-by"], "contains managed-by, which the stack sets"),
    ("ignored_tags", ["CostCentre", "costcentre"], "contains CostCentre twice"),
    ("budget.emails", [f"{i}@example.com" for i in range(51)], "51 addresses, but a notification"),
    ("storage.data_redundancy", "GRS", "'GRS' is not one of LRS, ZRS"),
    ("clusters.gpu.priority", "spot", "'spot' is not one of low, dedicated"),
    ("registry.untagged_retention_days", 400, "must be from 0 to 365"),
    ("monitoring.daily_cap_gb", 0, "must be at least 0.023"),
    ("storage.soft_delete_retention_days", 0, "must be from 1 to 365"),
    ("access.users", NOBODY, "access.users: has no effect; set access.jump_machine to true"),
    ("access.public_key", "-----BEGIN OPENSSH PRIVATE KEY-----", "must be an SSH public key"),
    ("network.flow_logs_to", VAULT, "must be a resource id"),
    ("serving", "yes", "'yes' is not true or false"),
]


@pytest.mark.parametrize(("key", "value", "says"), WRONG, ids=lambda part: str(part)[:40])
def test_what_is_wrong_is_refused_with_its_key_and_what_to_do(key, value, says):
    found = problem((key, value))
    assert says in found
