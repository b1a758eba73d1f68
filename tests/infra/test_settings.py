"""A stack's configuration is read strictly, and everything that is wrong is told at once."""

import dataclasses
import json
import re
import typing
from contextvars import ContextVar
from types import MappingProxyType

import pulumi
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from infra import stack_config
from infra.catalog import vm_sizes
from infra.errors import SettingsError
from infra.settings import Settings
from infra.validation import load
from tests import ROOT

STACKS = ("dev", "prod")
SUBSCRIPTION = "/subscriptions/00000000-0000-4000-8000-000000000000"
GROUP = f"{SUBSCRIPTION}/resourceGroups/hub"
NETWORK = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/hub"
STORAGE = f"{GROUP}/providers/Microsoft.Storage/storageAccounts"
VAULT = f"{GROUP}/providers/Microsoft.KeyVault/vaults/hub"


def configured(*changes):
    """The smallest configuration that is valid, with values at dotted keys."""
    values = {
        "stack": "dev",
        "prefix": "hvd",
        "location": "westeurope",
        "tags": {"owner": "team", "cost-center": "42"},
        "budget": {"amount": 500, "start": "2026-12-01", "emails": ["team@example.com"]},
    }
    for key, value in changes:
        *groups, name = key.split(".")
        place = values
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = value
    return values


def problems(*changes):
    with pytest.raises(SettingsError) as caught:
        load(configured(*changes))
    return caught.value.problems


def problem(*changes):
    (only,) = problems(*changes)
    return only


def stack_file(stack):
    config = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]
    return {key.partition(":")[2]: value for key, value in config.items()} | {"stack": stack}


def project():
    return yaml.safe_load((ROOT / "Pulumi.yaml").read_text())


@pytest.mark.parametrize("stack", STACKS)
def test_the_stacks_of_the_repository_are_valid(stack):
    settings = load(stack_file(stack))
    assert settings.profile == "private"
    assert settings.clusters.gpu.size == "Standard_ND40rs_v2"


def test_production_is_protected_and_cannot_be_purged():
    prod = load(stack_file("prod"))
    assert prod.protect
    assert prod.vault.purge_protection


def test_the_smallest_configuration_has_the_defaults_of_a_private_platform():
    settings = load(configured())
    assert settings.profile == "private"
    assert settings.clusters.gpu_dedicated is None
    assert settings.network.existing is None
    assert list(settings.clusters.by_role) == ["gpu", "preparation", "build"]


def test_a_group_that_is_given_in_part_keeps_the_rest_of_its_default():
    settings = load(configured(("clusters.gpu.max_nodes", 1)))
    assert settings.clusters.gpu == dataclasses.replace(
        load(configured()).clusters.gpu, max_nodes=1
    )


def test_an_unknown_key_says_which_was_probably_meant():
    assert problem(("locaton", "x")) == "locaton: there is no such key; did you mean location?"
    assert problem(("network.adress_space", "10.0.0.0/16")).endswith(
        "did you mean network.address_space?"
    )


def test_an_unknown_key_like_no_other_lists_those_that_exist():
    found = problem(("registry.zzz", 1))
    assert found.startswith("registry.zzz: there is no such key; known here: registry.untagged")


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
        "budget: is missing; give a group of keys with amount, start, emails",
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


def every_key(cls=Settings, prefix=""):
    """All dotted keys of the settings, groups and what is in them."""
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
    tops = {field.name for field in dataclasses.fields(Settings)}
    assert {re.match(r"\w+", text)[0] for text in told} <= tops


WRONG = [
    ("prefix", "abcdefghijkl", "take a prefix of at most 10"),
    ("stack", "My_Stack", "must be lower-case letters, digits and single hyphens"),
    ("location", "West Europe", "must be a region's short name, such as westeurope"),
    ("protect", "yes", "'yes' is not true or false"),
    ("profile", "open", "'open' is not one of private, allowlisted"),
    ("tags", {"owner": "team"}, "say who owns the stack and who pays for it"),
    ("tags.a/b", "x", "has at most 128 characters and none of % & / < > ?"),
    ("tags.owner", "x" * 257, "257 characters, a tag's text has at most 256"),
    ("budget.start", "2026-12-15", "must be the first day of a month"),
    ("budget.start", 20261201, "20261201 is not a text"),
    ("budget.emails", ["nobody"], "'nobody' must be an e-mail address"),
    ("budget.emails", [], "somebody has to be told"),
    ("budget.actual_percent", [50, 60, 70, 80, 90], "a budget takes at most 5"),
    ("budget.actual_percent", [50, 50], "has a share twice"),
    ("budget.forecast_percent", [], "give at least one share"),
    ("network.address_space", "172.17.0.0/20", "which the nodes' containers use"),
    ("network.address_space", "172.16.0.0/12", "which the nodes' containers use"),
    ("network.address_space", "10.0.0.0/26", "10.0.0.0/26 has 64 addresses, but the subnets need"),
    ("network.address_space", "wide", "write it like 10.64.0.0/22"),
    ("network.peer_address_spaces", ["10.64.1.0/24"], "overlaps 10.64.1.0/24 of a network"),
    ("network.peer_address_spaces", ["hub"], "'hub' is not a range like 10.0.0.0/16"),
    ("network.peer_with", [NETWORK], "network.peer_address_spaces: is empty"),
    ("network.peer_with", ["hub"], "must be a resource id /subscriptions/"),
    ("network.vault_service_tag", "KeyVault", "is not one of AzureKeyVault, Keyvault"),
    ("clusters.gpu.name", "gpu-8", "refuses; write 'gpu8', for example"),
    ("clusters.gpu.name", "g", "must be 3 to 24 letters, digits and hyphens"),
    ("clusters.gpu.size", "Standard_D4ads_v5", "has no GPUs; choose one of Standard_ND40rs_v2"),
    ("clusters.build.size", "Standard_ND40rs_v2", "has 8 GPUs; choose one of Standard_D4ads_v5"),
    ("clusters.build.size", "Standard_DS3_v2", "closed to new subscriptions since July 2026; take"),
    ("clusters.gpu.size", "STANDARD_ND40RS_V2", "is written Standard_ND40rs_v2"),
    ("clusters.gpu.size", "Standard_ND48", "is not in the catalogue; choose one of"),
    ("clusters.gpu.max_nodes", 101, "a cluster with InfiniBand has at most 100"),
    ("clusters.gpu.idle_seconds_before_scale_down", 1, "must be from 60 to 86400"),
    ("clusters.gpu_dedicated", {"max_nodes": 1}, "clusters.gpu_dedicated.size: is missing"),
    ("subscription.sizes", ["standard_d4ads_v5", "Standard_D16ads_v5"], "is not on offer in"),
    ("subscription.low_priority_cores", 79, "80 cores, but the low-priority quota is 79"),
    ("subscription.dedicated_cores", {"Dadsv5": 35}, "36 (clusters.preparation 32, clusters.b"),
    ("subscription.dedicated_cores", {"NDV2": 40}, "is no series of the catalogue, which are"),
    ("allowed_addresses", ["20.103.0.7"], "the private profile lets nobody in from outside"),
    ("encryption.customer_managed_keys", True, "vault.purge_protection: must be true"),
    ("encryption.key_uri", "https://v.vault.azure.net/keys/k", "must be https://VAULT/keys/NAME"),
    ("protect", True, "vault.purge_protection: must be true where protect is true"),
    ("people.publishers", "the-team", "must be a GUID"),
    ("monitoring.retention_days", 7, "must be from 30 to 730"),
    ("registry.existing", VAULT, "must be a resource id"),
    ("budget.amount", 10**400, "is not a number"),
    ("budget.amount", float("nan"), "nan is not a number"),
    ("clusters.gpu.max_nodes", 2.5, "2.5 is not a whole number"),
    ("vault.soft_delete_retention_days", True, "True is not a whole number"),
]


@pytest.mark.parametrize(("key", "value", "says"), WRONG, ids=lambda part: str(part)[:40])
def test_what_is_wrong_is_refused_with_its_key_and_what_to_do(key, value, says):
    found = problem((key, value))
    assert says in found


RETIRED = [size for size in vm_sizes.GPU if size.status == "retired"]


@pytest.mark.parametrize("size", RETIRED, ids=lambda size: size.name)
def test_a_retired_size_is_refused_with_the_one_to_take(size):
    found = problem(("clusters.gpu.size", size.name))
    assert f"{size.name} is retired since {size.since}; take {size.replacement}" in found
    assert load(configured(("clusters.gpu.size", size.replacement)))


@pytest.mark.parametrize("size", vm_sizes.deployable(gpu=True), ids=lambda s: s.name)
def test_every_deployable_gpu_size_makes_a_stack_also_with_a_twin(size):
    twin = {"size": size.name, "max_nodes": 2}
    settings = load(configured(("clusters.gpu.size", size.name), ("clusters.gpu_dedicated", twin)))
    names = [settings.cluster_name(role) for role in settings.clusters.by_role]
    assert len(set(names)) == 4


def test_a_quota_that_just_suffices_is_enough():
    settings = load(configured(("subscription.low_priority_cores", 80)))
    assert settings.clusters.gpu.max_nodes == 2
    assert "enough for 2; take fewer nodes or ask for more quota" in problem(
        ("clusters.gpu.max_nodes", 3), ("subscription.low_priority_cores", 119)
    )


def test_dedicated_nodes_do_not_count_against_the_low_priority_quota():
    twin = {"size": "Standard_ND40rs_v2", "max_nodes": 50}
    given = (("clusters.gpu_dedicated", twin), ("subscription.low_priority_cores", 80))
    assert load(configured(*given)).clusters.gpu_dedicated.max_nodes == 50
    assert problem(*given, ("subscription.dedicated_cores", {"NDv2": 1999})).startswith(
        "subscription.dedicated_cores.NDv2: 1999 cores, but at their largest the clusters take 2000"
    )


def test_two_clusters_of_one_name_are_refused():
    found = problem(("clusters.gpu.name", "nodes"), ("clusters.build.name", "Nodes"))
    assert found.startswith("clusters.build.name: 'Nodes' is the name of clusters.gpu too")


def test_a_cluster_keeps_the_name_that_it_is_given():
    settings = load(configured(("clusters.gpu.name", "v100")))
    assert settings.cluster_name("gpu") == "v100"
    assert settings.cluster_name("build") == settings.names.build_cluster


ALLOWED = [
    ([], "is empty, so the allowlisted profile would let nobody in"),
    (["10.0.0.1"], "10.0.0.1 is not a public address"),
    (["203.0.113.7"], "203.0.113.7 is not a public address"),
    (["20.103.0.0/32"], "takes no /31 and /32"),
    (["20.103.0.0/31"], "takes no /31 and /32"),
    (["20.0.0.0/7"], "large part of the internet"),
    (["0.0.0.0/0"], "allowed_addresses[0]: 0.0.0.0/0 is"),
    (["office"], "'office' is not an IPv4 address or range"),
    ([f"20.103.{i}.1" for i in range(256)] * 2, "a storage account takes at most 400"),
]


@pytest.mark.parametrize(("addresses", "says"), ALLOWED, ids=lambda part: str(part)[:40])
def test_an_allowlist_that_lets_in_nobody_or_everybody_is_refused(addresses, says):
    assert says in problem(("profile", "allowlisted"), ("allowed_addresses", addresses))


def test_an_allowlist_of_public_addresses_is_taken():
    given = (("profile", "allowlisted"), ("allowed_addresses", ["20.103.0.7", "20.104.0.0/24"]))
    assert load(configured(*given)).allowed_addresses == ("20.103.0.7", "20.104.0.0/24")


def existing(**changes):
    roles = ("training", "build", "endpoints")
    subnets = {f"{role}_subnet": f"{NETWORK}/subnets/{role}" for role in roles}
    return {"virtual_network": NETWORK} | subnets | changes


def test_what_exists_already_is_taken_by_its_id():
    settings = load(
        configured(
            ("network.existing", existing()),
            ("network.existing_dns_zones", GROUP),
            ("registry.existing", f"{GROUP}/providers/Microsoft.ContainerRegistry/registries/hub"),
            ("vault.existing", VAULT),
            ("storage.existing_default", f"{STORAGE}/one"),
            ("storage.existing_data", f"{STORAGE}/two"),
            (
                "monitoring.existing_log_workspace",
                f"{GROUP}/providers/Microsoft.OperationalInsights/workspaces/hub",
            ),
        )
    )
    assert settings.network.existing.endpoints_subnet == f"{NETWORK}/subnets/endpoints"


def test_ids_are_taken_in_the_case_that_azure_hands_them_out_in():
    vault = VAULT.replace("resourceGroups", "resourcegroups").replace("KeyVault", "Keyvault")
    assert load(configured(("vault.existing", vault))).vault.existing == vault


TAKEN = [
    ({"build_subnet": f"{NETWORK}2/subnets/build"}, (), "is not in network.existing.virt"),
    ({"endpoints_subnet": f"{NETWORK}/subnets/training"}, (), "is the training subnet too"),
    ({}, (("network.jump_subnet", True),), "network.jump_subnet: network.existing is not changed"),
    ({}, (("network.peer_with", [NETWORK]),), "network.peer_with: network.existing is not changed"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "also", "says"), TAKEN, ids=lambda part: str(part)[-40:])
def test_a_network_of_someone_else_is_left_as_it_is(changes, also, says):
    assert says in problem(("network.existing", existing(**changes)), *also)


def test_training_data_need_an_account_of_their_own():
    found = problem(
        ("storage.existing_default", f"{STORAGE}/one"), ("storage.existing_data", f"{STORAGE}/ONE")
    )
    assert found.startswith("storage.existing_data: is storage.existing_default too")


KEY = ("encryption.key_uri", "https://hub.vault.azure.net/keys/platform/0123")
MANAGED = ("encryption.customer_managed_keys", True)
KEYS = [
    ((MANAGED, ("vault.existing", VAULT)), "encryption.key_uri: is missing"),
    ((KEY, ("vault.existing", VAULT)), "encryption.key_uri: is not used"),
    ((MANAGED, KEY, ("vault.purge_protection", True)), "vault.existing: is missing"),
    ((MANAGED, KEY, ("vault.existing", VAULT + "2")), "vault 'hub', but vault.existing is 'hub2'"),
]


@pytest.mark.parametrize(("changes", "says"), KEYS, ids=lambda part: str(part)[:40])
def test_a_key_and_its_vault_go_together(changes, says):
    assert says in problem(*changes)


def test_keys_of_ones_own_or_of_an_existing_vault_are_taken():
    assert load(configured(MANAGED, ("vault.purge_protection", True)))
    assert load(configured(MANAGED, KEY, ("vault.existing", VAULT)))


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 100), st.integers(1, 60))
def test_the_subnets_hold_all_clusters_at_their_largest_at_once(gpu, twin, preparation, build):
    settings = load(
        configured(
            ("network.address_space", "10.64.0.0/21"),
            ("clusters.gpu.max_nodes", gpu),
            ("clusters.gpu_dedicated", {"size": "Standard_ND40rs_v2", "max_nodes": twin}),
            ("clusters.preparation.max_nodes", preparation),
            ("clusters.build.max_nodes", build),
        )
    )
    plan = settings.address_plan
    assert plan.training.num_addresses - 5 >= gpu + twin + preparation
    assert plan.build.num_addresses - 5 >= build


def test_more_nodes_within_the_room_kept_for_them_move_no_subnet():
    few = load(configured(("clusters.gpu.max_nodes", 1)))
    many = load(configured(("clusters.gpu.max_nodes", 100)))
    assert few.address_plan == many.address_plan


# What Pulumi hands over, and what it shows.


def test_the_project_declares_every_key_with_its_type_and_default():
    declared = project()["config"]
    defaults = load(configured())
    given = [field.name for field in dataclasses.fields(Settings) if field.name != "stack"]
    assert sorted(declared) == sorted(given)
    required = {name for name, schema in declared.items() if "default" not in schema}
    assert required == {"prefix", "location", "budget", "tags"}
    types = {str: "string", bool: "boolean", tuple: "array"}
    for name, schema in declared.items():
        value = getattr(defaults, name)
        assert schema["type"] == types.get(type(value), "object"), name
        assert schema["description"]
        if "default" in schema and schema["type"] != "object":
            assert schema["default"] == (list(value) if type(value) is tuple else value), name
        elif "default" in schema:
            assert schema["default"] == {}, name


def test_the_programs_folder_hides_no_standard_module():
    main = project()["main"]
    assert main == "infra/__main__.py"
    assert (ROOT / main).parent.joinpath("settings.py").exists()


@pytest.mark.parametrize("stack", STACKS)
def test_stack_files_have_no_secret_and_no_key_of_another_project(stack):
    text = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())
    assert set(text) == {"config"}
    assert all(key.startswith(f"{project()['name']}:") for key in text["config"])
    assert "secure:" not in json.dumps(text)


def test_the_engines_texts_become_data_and_other_namespaces_are_left_out():
    config = {
        "p:prefix": "42",
        "p:protect": "true",
        "p:tags": '{"owner": "team"}',
        "p:clusters": "no json {",
        "azure-native:location": "northeurope",
    }
    assert stack_config.decode(config, "p") == {
        "prefix": "42",
        "protect": True,
        "tags": {"owner": "team"},
        "clusters": "no json {",
    }


@pytest.mark.parametrize("stack", STACKS)
def test_settings_come_from_the_stack_that_pulumi_runs(stack, monkeypatch):
    name = project()["name"]
    values = {f"{name}:{key}": value for key, value in stack_file(stack).items() if key != "stack"}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(texts))
    monkeypatch.setattr(pulumi, "get_project", lambda: name)
    monkeypatch.setattr(pulumi, "get_stack", lambda: stack)
    # What a stack that was rendered in this process has left.
    nothing = ContextVar("config", default=MappingProxyType({}))
    monkeypatch.setattr(stack_config, "CONFIG", nothing)
    assert stack_config.from_stack() == load(stack_file(stack))
