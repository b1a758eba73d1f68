"""What waits for what while a stack is deployed."""

import itertools
import re

import pytest

from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    DATASTORE,
    IDENTITY,
    WORKSPACE,
    Resource,
    of_kind,
    requirements,
    value_at,
)
from tests.infra.support.stacks import key, nightly, ran, rendered
from tests.infra.support.variants import ASSIGNING, OPTIONS

ACCOUNT_ID = re.compile(r"/subscriptions/.*/Microsoft.Storage/storageAccounts/[^/]+")
ENDPOINT = "network:PrivateEndpoint"
ZONE_GROUP = "network:PrivateDnsZoneGroup"


def account_operations(resources):
    """Resources by the storage account that their creation changes, which Azure allows one by one.

    A workspace puts containers and a file share into its default account.
    """
    operations = {}
    for one in resources:
        changed = [one.id, one.inputs.get("resourceUri"), one.inputs.get("storageAccount")]
        changed.append(value_at(one.inputs, "properties.destination.serviceResourceId"))
        connections = one.inputs.get("privateLinkServiceConnections", ())
        changed += [connection["privateLinkServiceId"] for connection in connections]
        for target in filter(None, changed):
            account = ACCOUNT_ID.match(target)
            if account and one.kind != ASSIGNMENT:
                operations.setdefault(account[0].lower(), set()).add(one.key)
    return operations


@pytest.mark.parametrize("option", nightly(OPTIONS))
def test_what_a_resource_waits_for_is_declared_once_and_is_not_itself(option):
    resources = rendered("dev", **OPTIONS[option])
    known = set(requirements(resources))
    assert known == {one.key for one in resources}
    # What exists already is read, and not declared.
    known |= {key(ASSIGNMENT, one["label"]) for one in ran("dev", **OPTIONS[option]).roles}
    if "encryption.identity" in OPTIONS[option]:
        known.add(key(IDENTITY, "identity-encryption"))
    for one in resources:
        assert set(one.options.get("dependsOn", ())) <= known


@pytest.mark.parametrize("kind", [COMPUTE, "machinelearningservices:Datastore"])
@pytest.mark.parametrize("option", ["as it is", "dedicated twin", "everything theirs"])
def test_what_is_in_the_workspace_waits_until_the_workspace_answers(option, kind):
    resources = rendered("dev", **OPTIONS[option])
    needed = requirements(resources)
    assert of_kind(resources, kind)
    for one in of_kind(resources, kind):
        assert {
            key(WORKSPACE, "workspace"),
            key(ENDPOINT, "workspace"),
            key(ZONE_GROUP, "workspace"),
            key(ASSIGNMENT, "workspace-workspace-contributor"),
        } <= needed[one.key]


@pytest.mark.parametrize("option", ["as it is", "customer-managed keys", "everything theirs"])
def test_the_workspace_waits_for_the_endpoints_of_what_it_is_made_of(option):
    resources = rendered("dev", **OPTIONS[option])
    before = requirements(resources)[key(WORKSPACE, "workspace")]
    for service in ("vault", "registry", "default-blob", "default-file", "data-blob"):
        assert key(ENDPOINT, service) in before
        assert key(ZONE_GROUP, service) in before


def test_the_workspace_waits_for_the_roles_of_its_identity():
    resources = rendered("dev")
    before = requirements(resources)[key(WORKSPACE, "workspace")]
    own = {one.key for one in of_kind(resources, ASSIGNMENT) if one.name.startswith("workspace-")}
    assert own - before == {key(ASSIGNMENT, "workspace-workspace-contributor")}
    assert len(own) > 8


def test_the_operations_on_a_storage_account_are_known():
    counts = [len(keys) for keys in account_operations(rendered("dev")).values()]
    assert sorted(counts) == [6, 10]


@pytest.mark.parametrize("option", ASSIGNING)
def test_no_two_operations_on_a_storage_account_run_at_once(option):
    assert unordered(rendered("dev", **OPTIONS[option])) == []


@pytest.mark.parametrize("option", ["as it is", "managed network", "everything on"])
def test_nor_do_they_once_a_teardown_has_purged_the_workspace(option):
    resources = rendered("dev", **OPTIONS[option])
    left = [one for one in resources if not one.kind.startswith("machinelearningservices:")]
    assert unordered(left) == []


def unordered(resources):
    """Pairs of operations on one storage account of which none waits for the other."""
    needed = requirements(resources)
    operations = account_operations(resources)
    assert operations
    return [
        (one, other)
        for keys in operations.values()
        for one, other in itertools.combinations(sorted(keys), 2)
        if one not in needed[other] and other not in needed[one]
    ]


@pytest.mark.parametrize(
    ("cluster", "identity"),
    [("gpu", "training"), ("preparation", "preparation"), ("build", "build")],
)
def test_a_cluster_waits_for_the_roles_of_its_jobs(cluster, identity):
    resources = rendered("dev")
    before = requirements(resources)[key(COMPUTE, f"cluster-{cluster}")]
    roles = {
        one.key for one in of_kind(resources, ASSIGNMENT) if one.name.startswith(f"{identity}-")
    }
    late = {one for one in roles if f"{identity}-job-" in one}
    assert late
    assert roles - late <= before


def test_clusters_are_created_side_by_side():
    resources = rendered("dev", **OPTIONS["dedicated twin"])
    needed = requirements(resources)
    clusters = {one.key for one in of_kind(resources, COMPUTE)}
    assert len(clusters) > 3
    assert not [one for one in clusters if needed[one] & clusters]


@pytest.mark.parametrize("option", ASSIGNING)
def test_roles_that_azure_may_refuse_until_a_first_job_come_after_all_that_it_needs(option):
    resources = rendered("dev", **OPTIONS[option])
    needed = requirements(resources)
    late = {one.key for one in of_kind(resources, ASSIGNMENT) if "-job-" in one.name}
    first_job = {one.key for one in of_kind(resources, COMPUTE, DATASTORE)}
    assert late
    for one in late:
        assert first_job <= needed[one]
    assert not [one for one, before in needed.items() if late & before]


def test_a_zone_group_waits_for_the_links_of_its_zones():
    resources = rendered("dev")
    before = requirements(resources)[key(ZONE_GROUP, "workspace")]
    for zone in ("privatelink.api.azureml.ms", "privatelink.notebooks.azure.net"):
        assert key("privatedns:VirtualNetworkLink", f"link-{zone}") in before


def test_a_circle_of_dependencies_is_named():
    one = Resource("t:a:A", "one", {}, {"dependsOn": ["t:a:A::two"]}, "")
    two = Resource("t:a:A", "two", {}, {"dependsOn": ["t:a:A::one"]}, "")
    with pytest.raises(ValueError, match="circular dependency"):
        requirements([one, two])


def test_two_resources_of_one_name_are_refused():
    one = Resource("t:a:A", "one", {}, {}, "")
    with pytest.raises(ValueError, match="declared twice"):
        requirements([one, one])
