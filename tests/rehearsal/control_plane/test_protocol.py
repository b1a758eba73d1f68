"""What Azure's services answer, by raw HTTPS."""

import time

import pytest
import requests

from tests.rehearsal.conftest import ACCOUNT, API, GROUP, SUBSCRIPTION, WORKSPACE, compute

PROVIDERS = f"{GROUP}/providers"
LOCATION = f"{SUBSCRIPTION}/providers/Microsoft.MachineLearningServices/locations/westeurope"


def error(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_a_wrong_secret_is_refused(client):
    answer = client.token(client_secret="wrong")
    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid_client"
    assert client.token(client_id="nobody").status_code == 400


def test_a_request_without_a_token_is_refused(client):
    client.session.headers.pop("Authorization")
    assert error(client.get(WORKSPACE)) == (401, "AuthenticationFailed")


def test_a_foreign_an_expired_and_a_storage_token_are_refused(client, azure):
    name = azure.environment["AZURE_CLIENT_ID"]
    expired = azure.identity.token(name, azure.url, -10)
    foreign = expired.rpartition(".")[0] + ".AAAA"
    storage = azure.identity.token(name, "https://storage.azure.com")
    codes = []
    for token in (expired, foreign, storage):
        client.session.headers["Authorization"] = f"Bearer {token}"
        codes.append(error(client.get(WORKSPACE)))
    assert codes == [
        (401, "ExpiredAuthenticationToken"),
        (401, "InvalidAuthenticationToken"),
        (401, "InvalidAuthenticationTokenAudience"),
    ]


def test_blobs_take_a_token_of_this_azure_and_nobodys_key(client, azure, results):
    url = f"{azure.blob_endpoint('teststore')}results?restype=container&comp=list"
    token = client.token(scope="https://storage.azure.com/.default").json()["access_token"]
    headers = {"x-ms-version": "2023-11-03", "Authorization": f"Bearer {token}"}
    assert client.session.get(url, headers=headers).status_code == 200
    headers["Authorization"] = f"Bearer {token[:-4]}AAAA"
    assert client.session.get(url, headers=headers).status_code == 401
    headers["Authorization"] = "SharedKey teststore:AAAA"
    assert client.session.get(url, headers=headers).status_code == 403
    headers["Authorization"] = None
    assert client.session.get(url, headers=headers).status_code in {401, 403, 404}
    assert client.ask("POST", f"{ACCOUNT}/listKeys").json() == {"keys": []}


def test_a_resource_is_what_azure_would_show(client):
    found = client.get(WORKSPACE).json()
    assert found["id"] == WORKSPACE
    assert found["type"] == "Microsoft.MachineLearningServices/workspaces"
    assert found["properties"]["provisioningState"] == "Succeeded"
    assert found["systemData"]["createdBy"] == "platform"
    account = client.get(ACCOUNT).json()
    assert account["properties"]["primaryEndpoints"]["blob"] == client.azure.blob_endpoint(
        "teststore"
    )
    assert "key" not in account


def test_ids_have_no_case(client):
    assert (
        client.get(WORKSPACE.upper().replace("SUBSCRIPTIONS", "subscriptions")).status_code == 200
    )


def test_what_is_missing_is_named(client):
    missing = client.get(f"{WORKSPACE}/computes/nobody")
    assert error(missing) == (404, "ResourceNotFound")
    assert "nobody" in missing.json()["error"]["message"]
    assert error(client.get(f"{SUBSCRIPTION}/resourceGroups/none/providers/a/b/c")) == (
        404,
        "ResourceGroupNotFound",
    )
    orphan = f"{PROVIDERS}/Microsoft.MachineLearningServices/workspaces/none/computes/gpu"
    assert error(client.put(orphan, compute())) == (404, "ParentResourceNotFound")
    assert client.ask("DELETE", f"{PROVIDERS}/a/b/none").status_code == 204


def test_any_kind_of_resource_is_kept_changed_listed_and_deleted(client):
    network = f"{PROVIDERS}/Microsoft.Network/virtualNetworks/net"
    assert client.put(network, {"location": "x", "properties": {"a": 1}}).status_code == 201
    assert client.put(network, {"location": "x", "properties": {"b": 2}}).status_code == 200
    patched = client.ask("PATCH", network, {"tags": {"c": "d"}, "properties": {"b": None}}).json()
    assert patched["tags"] == {"c": "d"}
    assert patched["properties"] == {"provisioningState": "Succeeded"}
    client.put(f"{network}/subnets/one", {})
    subnets = client.get(f"{network}/subnets").json()["value"]
    assert [subnet["name"] for subnet in subnets] == ["one"]
    networks = client.get(f"{PROVIDERS}/Microsoft.Network/virtualNetworks").json()["value"]
    assert [found["name"] for found in networks] == ["net"]
    below_group = [found["id"] for found in client.get(f"{GROUP}/resources").json()["value"]]
    assert network in below_group
    assert f"{network}/subnets/one" not in below_group
    role = f"{network}/providers/Microsoft.Authorization/roleAssignments/1"
    assert client.put(role, {"properties": {"principalId": "p"}}).status_code == 201
    assert client.get(role).json()["type"] == "Microsoft.Authorization/roleAssignments"
    assert client.ask("DELETE", network).status_code == 200
    assert client.get(role).status_code == 404
    assert client.get(f"{network}/subnets/one").status_code == 404


def test_a_deleted_workspace_keeps_its_name_until_it_is_purged(client):
    other = WORKSPACE.replace("/ws", "/other")
    body = {"location": "westeurope", "properties": {"storageAccount": ACCOUNT}}
    assert client.put(other, body).status_code == 201
    assert client.ask("DELETE", other).status_code == 200
    assert client.get(other).status_code == 404
    assert error(client.put(other, body)) == (409, "Conflict")
    assert client.ask("DELETE", other, forceToPurge="true").status_code in {200, 204}
    assert client.put(other, body).status_code == 201
    assert client.ask("DELETE", other, forceToPurge="true").status_code == 200
    assert client.put(other, body).status_code == 201
    client.ask("DELETE", other, forceToPurge="true")


def test_a_deleted_vault_keeps_its_name_until_it_is_purged(client):
    vault = f"{PROVIDERS}/Microsoft.KeyVault/vaults/secrets"
    place = f"{SUBSCRIPTION}/providers/Microsoft.KeyVault"
    gone = f"{place}/locations/westeurope/deletedVaults/secrets"
    assert client.put(vault, {"location": "westeurope", "properties": {}}).status_code == 201
    assert client.ask("DELETE", vault).status_code == 200
    assert client.put(vault, {"location": "westeurope"}).status_code == 409
    listed = client.get(f"{place}/deletedVaults").json()["value"]
    assert [found["properties"]["vaultId"] for found in listed] == [vault]
    assert client.get(gone).status_code == 200
    assert client.ask("POST", f"{gone}/purge").status_code == 200
    assert client.get(gone).status_code == 404
    kept = {"location": "westeurope", "properties": {"enablePurgeProtection": True}}
    assert client.put(vault, kept).status_code == 201
    client.ask("DELETE", vault)
    assert client.ask("POST", f"{gone}/purge").status_code == 409


def test_a_compute_is_deleted_only_with_what_is_below_it(client):
    cluster = f"{WORKSPACE}/computes/other"
    assert client.put(cluster, compute()).status_code == 201
    assert error(client.ask("DELETE", cluster)) == (400, "ValidationError")
    assert client.ask("DELETE", cluster, underlyingResourceAction="Delete").status_code == 200
    assert client.get(cluster).status_code == 404


def test_a_compute_cannot_become_another_size(client):
    other = compute()
    other["properties"]["properties"]["vmSize"] = "Standard_D2"
    refused = client.put(f"{WORKSPACE}/computes/cluster", other)
    assert refused.status_code == 400
    assert "vmSize cannot be changed" in refused.json()["error"]["message"]


def test_a_version_never_changes(client):
    version = f"{WORKSPACE}/environments/fixed/versions/1"
    assert client.put(version, {"properties": {"image": "a"}}).status_code == 201
    assert client.put(version, {"properties": {"image": "a"}}).status_code == 200
    assert client.put(version, {"properties": {"image": "b"}}).status_code == 409
    latest = client.get(f"{WORKSPACE}/environments/fixed").json()["properties"]
    assert latest["latestVersion"] == "1"


def test_cores_are_counted(client, azure):
    azure.admin.quota("westeurope", "totalLowPriorityCores", 80)
    usages = {
        usage["name"]["value"]: usage for usage in client.get(f"{LOCATION}/usages").json()["value"]
    }
    low = usages["totalLowPriorityCores"]
    assert (low["limit"], low["unit"]) == (80, "Count")
    assert low["currentValue"] % 40 == 0
    sizes = {size["name"]: size for size in client.get(f"{LOCATION}/vmSizes").json()["value"]}
    assert sizes["Standard_ND40rs_v2"]["vCPUs"] == 40


def test_a_fault_happens_to_its_requests_and_to_no_other(client, azure):
    azure.admin.fault(r"GET .*/computes/cluster", status=503, retry_after=7, times=2, after=1)
    statuses = [client.get(f"{WORKSPACE}/computes/cluster").status_code for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    assert client.get(WORKSPACE).status_code == 200


def test_a_fault_says_when_to_come_again(client, azure):
    azure.admin.fault("workspaces/ws", status=429, code="TooManyRequests", retry_after=7)
    answer = client.get(WORKSPACE)
    assert error(answer) == (429, "TooManyRequests")
    assert answer.headers["Retry-After"] == "7"


def test_a_fault_cuts_or_delays(client, azure):
    azure.admin.fault("workspaces/ws", cut=True)
    with pytest.raises(requests.ConnectionError):
        client.get(WORKSPACE)
    azure.admin.fault("workspaces/ws", delay=0.3)
    began = time.monotonic()
    assert client.get(WORKSPACE).status_code == 200
    assert time.monotonic() - began >= 0.3


def test_storage_can_refuse_an_identity(client, azure):
    azure.admin.fault("PUT /teststore/results/", status=403, code="AuthorizationPermissionMismatch")
    token = client.token(scope="https://storage.azure.com/.default").json()["access_token"]
    headers = {"x-ms-version": "2023-11-03", "Authorization": f"Bearer {token}",
               "x-ms-blob-type": "BlockBlob"}  # fmt: skip
    url = f"{azure.blob_endpoint('teststore')}results/a%20b.txt"
    answer = client.session.put(url, data=b"x", headers=headers)
    assert answer.status_code == 403
    assert answer.headers["x-ms-error-code"] == "AuthorizationPermissionMismatch"
    assert client.session.put(url, data=b"x", headers=headers).status_code == 201
    assert client.session.get(url, headers=headers).content == b"x"


def test_requests_are_remembered_with_who_asked(client, azure):
    azure.admin.forget_requests()
    client.get(f"{WORKSPACE}/computes/cluster")
    request = azure.requests[-1]
    assert (request.method, request.status) == ("GET", 200)
    assert request.path == f"{WORKSPACE}/computes/cluster"
    assert request.query == "api-version=2024-10-01"
    assert request.caller == azure.environment["AZURE_CLIENT_ID"]


def test_all_that_an_admin_can_do_is_also_a_route(client, azure):
    body = {"match": "computes/cluster", "status": 500}
    assert client.ask("POST", "/admin/fault", body).status_code == 200
    assert client.get(f"{WORKSPACE}/computes/cluster").status_code == 500
    requests_seen = client.get("/admin/requests").json()["value"]
    assert requests_seen[-1]["status"] == 500
    assert client.ask("POST", "/admin/nothing", {}).status_code == 404
    assert client.ask("POST", "/admin/fault", {"unknown": 1}).status_code == 400


def test_the_blob_server_comes_back_with_its_data(client, azure, results):
    results.upload_blob("durable.txt", b"kept", overwrite=True)
    token = client.token(scope="https://storage.azure.com/.default").json()["access_token"]
    headers = {"x-ms-version": "2023-11-03", "Authorization": f"Bearer {token}"}
    url = f"{azure.blob_endpoint('teststore')}results/durable.txt"
    azure.admin.kill_blob_server()
    with pytest.raises(requests.ConnectionError):
        client.session.get(url, headers=headers)
    azure.admin.start_blob_server()
    assert client.session.get(url, headers=headers).content == b"kept"


def test_metadata_needs_nobody(azure):
    session = requests.Session()
    session.trust_env = False
    session.verify = str(azure.certificate.bundle)
    cloud = session.get(f"{azure.url}/metadata/endpoints", params=API).json()[0]
    assert cloud["resourceManager"] == f"{azure.url}/"


def test_somebody_without_a_role_is_refused_and_others_are_not(client, azure):
    other, secret = azure.identity.add_client()
    azure.admin.forbid(other, "computes/cluster")
    assert client.get(f"{WORKSPACE}/computes/cluster").status_code == 200
    token = client.token(client_id=other, client_secret=secret).json()["access_token"]
    client.session.headers["Authorization"] = f"Bearer {token}"
    assert error(client.get(f"{WORKSPACE}/computes/cluster")) == (403, "AuthorizationFailed")
    assert client.get(WORKSPACE).status_code == 200


def test_a_group_takes_all_that_is_in_it_with_it(client):
    group = GROUP.replace("/rg", "/short")
    account = ACCOUNT.replace("/rg/", "/short/").replace("teststore", "shortstore")
    workspace = WORKSPACE.replace("/rg/", "/short/")
    body = {"location": "westeurope", "properties": {"storageAccount": account}}
    assert client.put(group, {"location": "westeurope"}).status_code == 201
    assert client.put(account, {"location": "westeurope"}).status_code == 201
    assert client.put(workspace, body).status_code == 201
    assert client.ask("HEAD", group).status_code == 204
    assert client.ask("DELETE", group).status_code == 200
    assert client.ask("HEAD", group).status_code == 404
    assert error(client.get(workspace)) == (404, "ResourceGroupNotFound")
    client.put(group, {"location": "westeurope"})
    client.put(account, {"location": "westeurope"})
    assert error(client.put(workspace, body)) == (409, "Conflict")
    assert client.ask("DELETE", workspace, forceToPurge="true").status_code in {200, 204}
    assert client.put(workspace, body).status_code == 201
    client.ask("DELETE", group, forceToPurge="true")
