"""Azure is asked, before Pulumi starts, for what would fail in the middle of a deployment."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from common.errors import UserError
from infra import prerequisites as contract
from infra.validation import load
from jobs.commands import up
from jobs.console import Console
from jobs.pulumi import prerequisites
from jobs.pulumi.prerequisites import look
from jobs.pulumi.state import StackResource
from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.infra.support.configurations import configured

SUBSCRIPTION = "00000000-0000-4000-8000-000000000002"
OTHERS = "/subscriptions/00000000-0000-4000-8000-000000000003/resourceGroups/theirs/providers"


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    subscriptions = (SUBSCRIPTION, OTHERS.split("/")[2])
    options = Options(subscriptions=subscriptions)
    with Simulator(tmp_path_factory.mktemp("azure"), options) as azure:
        azure.put(OTHERS.rpartition("/")[0], "", {"location": "westeurope"})
        yield azure


@pytest.fixture
def needs(azure, monkeypatch):
    """The prerequisites of the smallest stack in this Azure."""
    for name, value in azure.environment.items():
        monkeypatch.setenv(name, value)
    return needs_of(azure)


def needs_of(azure, *changes):
    pins = {"id": SUBSCRIPTION, "tenant": azure.options.tenant_id}
    start = f"{datetime.now(UTC):%Y-%m}-01"
    return contract.of(load(configured(("subscription", pins), ("budget.start", start), *changes)))


@pytest.fixture
def put(azure):
    """Create a resource in Azure, until the end of the test."""
    made = []

    def put(identifier, **body):
        azure.put(identifier, "", {"location": "westeurope", **body})
        made.append(identifier)

    yield put
    for identifier in reversed(made):
        azure.resources.discard(identifier)


def results(needs, state=()):
    return {check.name: check for check in look(needs, state)}


def problem(needs, state=()):
    """The one thing that is wrong."""
    (bad,) = [check for check in results(needs, state).values() if not check.good]
    return f"{bad.name}: {bad.text}"


def held(needs, kind, name, group=None):
    group = group or f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{needs.resource_group}"
    return StackResource(
        f"urn:pulumi:dev::p::{kind}::{name}", kind, f"{group}/providers/x/y/z", False
    )


def named(needs, resource):
    (name,) = [one for one in needs.names if one.resource == resource]
    return name


def test_an_empty_subscription_has_all_that_the_stack_needs(needs):
    found = results(needs)
    assert list(found) == ["subscription", "region", "sizes", "names", "budget", "providers"]
    assert all(check.good for check in found.values())
    for name in needs.names:
        assert f"{name.name} is free" in found["names"].text


@pytest.mark.parametrize("resource", ["storage-default", "storage-data", "registry", "vault"])
def test_a_name_that_somebody_else_has_is_told_before_anything_is_made(needs, put, resource):
    name = named(needs, resource)
    put(f"{OTHERS}/{name.kind}/{name.name}", properties={})
    said = problem(needs)
    assert f"names: {name.kind} {name.name}: the name is taken outside of the stack" in said
    assert "pulumi config set name_seed TEXT --stack dev" in said


def test_the_owner_assigns_roles_after_a_choice_of_other_names(needs, put):
    name = named(needs, "vault")
    put(f"{OTHERS}/{name.kind}/{name.name}", properties={})
    theirs = replace(needs, roles_of_owner=True)
    assert "name_seed TEXT --stack dev, before the owner assigns roles" in problem(theirs)


def test_a_name_that_the_stack_holds_is_not_asked_for(needs, put):
    name = named(needs, "vault")
    put(f"{OTHERS}/{name.kind}/{name.name}", properties={})
    found = results(needs, [held(needs, "azure-native:keyvault:Vault", "vault")])
    assert found["names"].good
    assert "z is the stack's" in found["names"].text


def test_what_is_in_the_group_and_not_in_the_state_is_told_apart(needs, put):
    name = named(needs, "registry")
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{needs.resource_group}"
    put(group)
    put(f"{group}/providers/{name.kind}/{name.name}")
    assert "exists in the stack's group, but Pulumi does not know it" in problem(needs)


@pytest.mark.parametrize(
    ("protected", "cure"), [(False, "az keyvault purge --name"), (True, "has purge protection")]
)
def test_a_deleted_vault_that_holds_its_name_is_told_with_what_to_do(needs, put, protected, cure):
    name = named(needs, "vault").name
    provider = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.KeyVault"
    deleted = f"{provider}/locations/westeurope/deletedVaults/{name}"
    put(deleted, properties={"vaultId": "x", "purgeProtectionEnabled": protected})
    said = problem(needs)
    assert f"vaults {name}: was deleted and holds its name" in said
    assert "recover it (az keyvault recover --name" in said
    assert cure in said


def test_a_region_that_does_not_exist_is_told_with_the_one_that_was_meant(needs):
    said = problem(replace(needs, region="westeuropa"))
    assert "no region 'westeuropa'; did you mean 'westeurope'?" in said


def test_every_setting_that_names_a_region_is_asked_about(needs):
    names = ["northeurope", "swedencentra"]
    other = contract.of(load(configured(("registry.replicas", names)))).other_regions
    assert other == {"registry.replicas": ("northeurope", "swedencentra")}
    said = problem(replace(needs, other_regions=other))
    assert "registry.replicas: this subscription has no region 'swedencentra'" in said
    assert "did you mean 'swedencentral'?" in said


def test_zones_are_asked_of_the_region(needs):
    zonal = replace(needs, zonal=("storage.data_redundancy",))
    assert results(zonal)["region"].text == "westeurope, with availability zones"
    said = problem(replace(zonal, region="norwaywest"))
    assert "storage.data_redundancy: norwaywest has no availability zones" in said


def test_a_size_that_the_region_lacks_is_told_with_its_setting(needs):
    sizes = {"clusters.gpu.size": ("Standard_NC6s_v3", "LowPriority")}
    said = problem(replace(needs, sizes=sizes))
    assert "clusters.gpu.size: Standard_NC6s_v3 is not offered in westeurope" in said


def test_a_subscription_that_the_user_does_not_see_is_told_with_those_that_are_seen(needs):
    other = "99999999-0000-4000-8000-000000000000"
    found = results(replace(needs, subscription_id=other))
    assert list(found) == ["subscription"]
    assert f"belongs to subscription {other}" in found["subscription"].text
    assert SUBSCRIPTION in found["subscription"].text
    assert "make configure STACK=dev" in found["subscription"].text


def test_signed_in_to_another_tenant_nothing_is_asked(azure, needs):
    azure.admin.forget_requests()
    other = "99999999-0000-4000-8000-000000000000"
    (only,) = results(replace(needs, tenant_id=other)).values()
    assert not only.good
    assert f"signed in to tenant {azure.options.tenant_id}" in only.text
    assert f"the stack belongs to tenant {other}" in only.text
    assert not [one for one in azure.requests if one.path.startswith("/subscriptions")]


def test_a_deployed_stack_does_not_move_to_other_names_or_subscriptions(needs):
    there = "/subscriptions/s/resourceGroups/old"
    kind = "azure-native:managedidentity:UserAssignedIdentity"
    said = problem(needs, [held(needs, kind, "identity-build", there)])
    assert f"is deployed in {there}; a deployed stack cannot move" in said
    assert results(needs, [held(needs, kind, "identity-build")])["subscription"].good


def test_a_group_that_should_exist_is_looked_up(needs, put):
    group = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/landing-zone"
    pins = ("subscription", {"id": SUBSCRIPTION, "tenant": needs.tenant_id})
    rows = contract.of(load(configured(pins, ("resource_group.existing", group)))).existing
    needs = replace(needs, existing=tuple(row for row in rows if row.check == "resource group"))
    assert "landing-zone does not exist" in problem(needs)
    put(group)
    assert results(needs)["resource group"].good


def beginnings(needs, day):
    return tuple(replace(one, day=day) for one in needs.beginnings)


@pytest.mark.parametrize(
    ("start", "said"), [("2020-01-01", "is past"), ("2099-01-01", "is too far ahead")]
)
def test_a_new_budget_begins_in_the_months_that_azure_accepts(needs, start, said):
    stale = replace(needs, beginnings=beginnings(needs, start))
    assert f"budget.start: {start} {said}" in problem(stale)
    budget = held(needs, "azure-native:consumption:Budget", "budget")
    assert results(stale, [budget])["budget"].good


def test_who_has_rights_on_one_group_only_is_not_stopped_by_what_cannot_be_asked(azure, needs):
    azure.admin.forbid(azure.environment["AZURE_CLIENT_ID"], "checkNameAvailability|/locations")
    try:
        found = results(needs)
    finally:
        azure.admin.clear_faults()
    assert all(check.good for check in found.values())
    assert found["names"].text.startswith("not asked: ")
    assert found["region"].text.startswith("not asked: ")


def test_all_problems_are_told_at_once_and_nothing_is_changed(needs, monkeypatch):
    class Stack:
        stack = "dev"

    wrong = replace(needs, region="x", beginnings=beginnings(needs, "2020-01-01"))
    monkeypatch.setattr(prerequisites, "of_stack", lambda _: wrong)
    with pytest.raises(UserError) as caught:
        up.require_prerequisites(Stack(), [], Console())
    said = str(caught.value)
    assert said.startswith("stack dev: nothing was changed\n")
    assert "region: " in said
    assert "budget: budget.start" in said


def test_a_provider_that_is_not_registered_is_told_before_anything_is_made(azure, needs):
    azure.admin.unregister("Microsoft.KeyVault")
    try:
        assert "az provider register --namespace Microsoft.KeyVault --wait" in problem(needs)
    finally:
        azure.admin.clear_faults()
    assert results(needs)["providers"].good


@pytest.mark.parametrize("namespace", ["Microsoft.Cdn", "Microsoft.PolicyInsights"])
def test_providers_of_endpoints_are_asked_for_by_stacks_with_endpoints(azure, needs, namespace):
    azure.admin.unregister(namespace)
    try:
        assert results(needs)["providers"].good
        cure = f"az provider register --namespace {namespace} --wait"
        assert cure in problem(needs_of(azure, ("serving", True)))
    finally:
        azure.admin.clear_faults()
