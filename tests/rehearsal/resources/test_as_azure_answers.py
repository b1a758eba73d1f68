"""Statuses, headers, states and refusals as Azure's own answers to such requests were recorded."""

import uuid

import pytest

from rehearsal.options import Options
from rehearsal.simulator import Simulator
from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    CLUSTER,
    GROUP,
    PROVIDERS,
    SUBSCRIPTION,
    WORKSPACE,
    Client,
    compute,
    declare,
    error,
)

NETWORK = f"{PROVIDERS}/Microsoft.Network"
ROLE = f"{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{uuid.uuid4()}"
ASYNC, LOCATION, PAUSE = "Azure-AsyncOperation", "Location", "Retry-After"
BODY = {"location": "westeurope", "properties": {}}


@pytest.fixture
def alone(tmp_path):
    """A platform that a test may break."""
    with Simulator(tmp_path, Options(card_seconds=3600.0)) as azure:
        declare(azure)
        yield Client(azure)


def sent(client, path, body):
    """Status, state and headers of the answers to a PUT, the same PUT again, and a DELETE."""
    for answer in (client.put(path, body), client.put(path, body), client.ask("DELETE", path)):
        content = answer.json() if answer.content else {}
        state = (content.get("properties") or {}).get("provisioningState")
        yield (
            answer.status_code,
            state,
            {name for name in (ASYNC, LOCATION, PAUSE) if name in answer.headers},
        )


@pytest.mark.parametrize(
    ("path", "body", "created", "replaced", "deleted"),
    [
        (
            f"{NETWORK}/virtualNetworks/n",
            BODY,
            (201, "Updating", {ASYNC, PAUSE}),
            (200, "Succeeded", {ASYNC}),
            (202, None, {ASYNC, LOCATION, PAUSE}),
        ),
        (
            f"{NETWORK}/privateDnsZones/z.example",
            BODY,
            (202, None, {ASYNC, LOCATION, PAUSE}),
            (202, None, {ASYNC, LOCATION, PAUSE}),
            (202, None, {ASYNC, LOCATION, PAUSE}),
        ),
        (
            f"{PROVIDERS}/Microsoft.Storage/storageAccounts/slow",
            BODY,
            (202, None, {LOCATION, PAUSE}),
            (200, "Succeeded", set()),
            (200, None, set()),
        ),
        (
            f"{WORKSPACE}/computes/slow",
            compute(),
            (201, "Creating", {ASYNC}),
            (200, "Updating", {ASYNC}),
            (202, None, {ASYNC}),
        ),
        (
            f"{WORKSPACE}/onlineEndpoints/slow",
            {**BODY, "properties": {"authMode": "AADToken"}},
            (201, "Creating", {ASYNC, LOCATION}),
            (200, "Updating", {ASYNC}),
            (202, None, {ASYNC, LOCATION}),
        ),
        (
            f"{PROVIDERS}/Microsoft.Insights/components/c",
            BODY,
            (200, "Succeeded", set()),
            (200, "Succeeded", set()),
            (200, None, set()),
        ),
        (
            f"{PROVIDERS}/Microsoft.ManagedIdentity/userAssignedIdentities/i",
            BODY,
            (201, None, {LOCATION}),
            (200, None, set()),
            (200, None, set()),
        ),
    ],
)
def test_long_operations_are_answered_before_they_end(
    client, path, body, created, replaced, deleted
):
    assert list(sent(client, path, body)) == [created, replaced, deleted]
    assert client.get(path).status_code == 404


def test_a_workspace_is_answered_without_a_body_and_polled_to_its_end(client):
    workspace = WORKSPACE.replace("/ws", "/slow")
    insights = f"{PROVIDERS}/Microsoft.Insights/components/c"
    given = {"storageAccount": ACCOUNT, "applicationInsights": insights}
    answer = client.put(workspace, {**BODY, "kind": "Default", "properties": given})
    assert (answer.status_code, answer.content) == (202, b"")
    state = client.session.get(answer.headers[ASYNC])
    assert state.json() == {"status": "Succeeded", "percentComplete": 100.0}
    result = client.session.get(answer.headers[LOCATION])
    assert (result.status_code, result.content) == (200, b"")
    shown = client.get(workspace).json()
    assert shown["sku"] == {"name": "Basic", "tier": "Basic"}
    assert shown["properties"]["publicNetworkAccess"] == "Enabled"
    client.ask("DELETE", workspace, forceToPurge="true")


@pytest.mark.parametrize(
    ("body", "version", "refused"),
    [
        ({"kind": "Default"}, "2024-10-01", True),
        ({}, "2025-12-01", True),
        ({}, "2024-10-01", False),
        ({"kind": "Hub"}, "2025-12-01", False),
    ],
)
def test_a_workspace_without_application_insights_is_refused(client, body, version, refused):
    workspace = WORKSPACE.replace("/ws", "/bare")
    given = {**BODY, **body, "properties": {"storageAccount": ACCOUNT}}
    query = {"api-version": version}
    answer = client.ask("PUT", workspace, given, **query)
    if refused:
        assert error(answer) == (400, "ValidationError")
        assert "Missing dependent resources in workspace json" in answer.text
    else:
        assert answer.status_code == 202
        client.ask("DELETE", workspace, forceToPurge="true")


def test_a_cluster_that_is_being_created_has_nulls(client):
    cluster = f"{WORKSPACE}/computes/nulls"
    own = client.put(cluster, compute()).json()["properties"]["properties"]
    names = ("vmPriority", "allocationState", "nodeStateCounts", "currentNodeCount")
    assert [own[name] for name in names] == [None] * 4
    assert client.get(cluster).json()["properties"]["properties"]["allocationState"] == "Steady"
    client.ask("DELETE", cluster)


def test_a_principal_must_exist_unless_its_type_is_given(client, azure):
    role = f"{GROUP}/providers/Microsoft.Authorization/roleAssignments"
    nobody = {"principalId": str(uuid.uuid4()), "roleDefinitionId": ROLE}
    name = f"{role}/{uuid.uuid4()}"
    assert error(client.put(name, {"properties": nobody})) == (400, "PrincipalNotFound")
    assert error(client.get(name)) == (404, "RoleAssignmentNotFound")
    assert client.ask("DELETE", name).status_code == 204
    assert client.put(name, {"properties": {**nobody, "principalType": "User"}}).status_code == 201
    identity = f"{PROVIDERS}/Microsoft.ManagedIdentity/userAssignedIdentities/known"
    principal = client.put(identity, BODY).json()["properties"]["principalId"]
    known = {"properties": {"principalId": principal, "roleDefinitionId": ROLE}}
    first, second = (f"{role}/{uuid.uuid4()}" for _ in range(2))
    shown = client.put(first, known).json()["properties"]
    assert (shown["principalType"], shown["scope"]) == ("ServicePrincipal", GROUP)
    assert error(client.put(second, known)) == (409, "RoleAssignmentExists")
    deleted = client.ask("DELETE", first)
    assert (deleted.status_code, deleted.json()["id"]) == (200, first)
    assert client.put(second, known).status_code == 201
    for one in (name, second, identity):
        client.ask("DELETE", one)


def test_a_zone_with_links_stays_and_a_network_has_one_zone_of_a_name(alone):
    network, other = f"{NETWORK}/virtualNetworks/linked", f"{SUBSCRIPTION}/resourceGroups/hub"
    zone = f"{NETWORK}/privateDnsZones/privatelink.example"
    second = zone.replace(GROUP, other)
    assert alone.put(other, BODY).ok
    for path in (network, zone, second):
        assert alone.put(path, BODY).ok
    link = {"location": "global", "properties": {"virtualNetwork": {"id": network}}}
    assert alone.put(f"{zone}/virtualNetworkLinks/a", link).status_code == 202
    refused = alone.put(f"{second}/virtualNetworkLinks/b", link)
    assert error(refused) == (400, "BadRequest")
    assert "overlapping namespaces" in refused.text
    assert error(alone.ask("DELETE", zone)) == (409, "CannotDeleteResource")
    assert alone.ask("DELETE", f"{zone}/virtualNetworkLinks/a").status_code == 202
    assert alone.ask("DELETE", zone).status_code == 202
    assert alone.put(f"{second}/virtualNetworkLinks/b", link).status_code == 202


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (ACCOUNT.replace("/rg/", "/none/"), 404, "ResourceGroupNotFound"),
        (f"{SUBSCRIPTION}/resourceGroups/none", 404, "ResourceGroupNotFound"),
        (f"{WORKSPACE}none/computes/c", 404, "ParentResourceNotFound"),
        (f"{ACCOUNT}none/blobServices/default/containers/c", 404, "ParentResourceNotFound"),
        (f"{NETWORK}/virtualNetworks/none/subnets/s", 404, "ResourceNotFound"),
        (f"{ACCOUNT}none/managementPolicies/default", 404, "ResourceNotFound"),
        (
            f"{ACCOUNT}none/providers/Microsoft.Insights/diagnosticSettings/d",
            404,
            "ResourceNotFound",
        ),
        (f"{ACCOUNT}none", 204, None),
        (f"{WORKSPACE}/computes/none", 204, None),
    ],
)
def test_a_deletion_below_something_that_is_missing_is_a_404(client, path, status, code):
    answer = client.ask("DELETE", path)
    assert answer.status_code == status
    assert code is None or error(answer) == (status, code)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{GROUP}/providers/Microsoft.Authorization/roleAssignments/1", "RoleAssignmentNotFound"),
        (ROLE, "RoleDefinitionDoesNotExist"),
        (
            f"{SUBSCRIPTION}/providers/Microsoft.KeyVault/locations/westeurope/deletedVaults/v",
            "DeletedVaultNotFound",
        ),
        (f"{ACCOUNT}/managementPolicies/default", "ManagementPolicyNotFound"),
        (f"{ACCOUNT}/blobServices/default/containers/none", "ContainerOperationFailure"),
        (f"{ACCOUNT}none", "ResourceNotFound"),
    ],
)
def test_a_kind_has_a_404_of_its_own(client, path, code):
    assert error(client.get(path)) == (404, code)


def test_the_letter_case_of_a_path_does_not_matter(client):
    shouted = ACCOUNT.replace("Microsoft.Storage/storageAccounts", "MICROSOFT.STORAGE/ACCOUNTS")
    shouted = shouted.replace("ACCOUNTS", "STORAGEACCOUNTS")
    shown = client.get(shouted).json()
    assert shown["type"] == "Microsoft.Storage/storageAccounts"
    assert client.put(f"{SUBSCRIPTION}/resourceGroups/more", BODY).ok
    taken = shouted.replace("/rg/", "/more/")
    assert error(client.put(taken, BODY)) == (409, "StorageAccountAlreadyTaken")
    group = f"{NETWORK}/networksecuritygroups/cased"
    subnet = {"properties": {"networkSecurityGroup": {"id": group.upper()}}}
    assert client.put(group, BODY).status_code == 201
    assert client.put(f"{NETWORK}/VIRTUALNETWORKS/cased", BODY).status_code == 201
    assert client.put(f"{NETWORK}/virtualNetworks/cased/SUBNETS/s", subnet).status_code == 201
    assert error(client.ask("DELETE", group))[1] == "InUseNetworkSecurityGroupCannotBeDeleted"
    machine = f"{PROVIDERS}/Microsoft.Compute/virtualMachines/bare"
    assert client.put(machine, {"location": "westeurope"}).status_code == 201
    for path in (f"{NETWORK}/virtualNetworks/cased", group, machine):
        assert client.ask("DELETE", path).ok


def test_the_network_cards_of_a_deleted_cluster_keep_their_subnet(alone):
    network, subnet = f"{NETWORK}/virtualNetworks/n", f"{NETWORK}/virtualNetworks/n/subnets/nodes"
    assert alone.put(network, BODY).ok
    assert alone.put(subnet, {"properties": {"addressPrefix": "10.0.0.0/24"}}).ok
    inside = compute()
    inside["properties"]["properties"]["subnet"] = {"id": subnet}
    assert alone.put(f"{WORKSPACE}/computes/inside", inside).ok
    assert alone.ask("DELETE", f"{WORKSPACE}/computes/inside").status_code == 202
    for path in (subnet, network):
        refused = alone.ask("DELETE", path)
        assert error(refused) == (400, "InUseSubnetCannotBeDeleted")
        assert "azurebatch" in refused.text


def test_diagnostic_settings_outlive_what_they_belong_to(alone):
    network = f"{NETWORK}/virtualNetworks/logged"
    setting = f"{network}/providers/Microsoft.Insights/diagnosticSettings/all"
    assert alone.put(network, BODY).ok
    assert alone.put(setting, {"properties": {"workspaceId": "logs"}}).ok
    assert alone.ask("DELETE", network).ok
    # Nothing can be done with it while its resource is gone.
    assert error(alone.get(setting)) == (404, "ResourceNotFound")
    assert error(alone.ask("DELETE", setting)) == (404, "ResourceNotFound")
    assert alone.put(network, BODY).status_code == 201
    assert alone.get(setting).json()["properties"]["workspaceId"] == "logs"
    assert alone.ask("DELETE", setting).status_code == 200
    assert error(alone.get(setting)) == (404, "ResourceNotFound")


def test_a_subscription_has_diagnostic_settings_too(client):
    setting = f"{SUBSCRIPTION}/providers/Microsoft.Insights/diagnosticSettings/all"
    assert client.put(setting, {"properties": {"workspaceId": "logs"}}).ok
    assert client.get(setting).json()["properties"]["workspaceId"] == "logs"
    assert client.ask("DELETE", setting).ok
    assert error(client.get(setting)) == (404, "ResourceNotFound")


def test_a_change_takes_a_second_factor_and_reading_does_not(client, azure):
    azure.admin.challenge()
    refused = client.put(CLUSTER, compute())
    assert refused.status_code == 401
    assert 'claims="' in refused.headers["WWW-Authenticate"]
    assert client.ask("DELETE", CLUSTER).status_code == 401
    assert client.get(CLUSTER).status_code == 200
    azure.admin.clear_faults()
    assert client.put(CLUSTER, compute()).status_code == 200


def test_a_token_of_an_endpoint_is_given(client):
    endpoint = f"{WORKSPACE}/onlineEndpoints/tokens"
    assert client.put(endpoint, {**BODY, "properties": {"authMode": "AADToken"}}).ok
    given = client.ask("POST", f"{endpoint}/token").json()
    assert given["tokenType"] == "Bearer"
    assert given["expiryTimeUtc"] > given["refreshAfterTimeUtc"]
    client.ask("DELETE", endpoint)
