"""Deleted workspaces and vaults keep their names until they are purged."""

from tests.rehearsal.support.small_platform import (
    ACCOUNT,
    PROVIDERS,
    SUBSCRIPTION,
    WORKSPACE,
    error,
)


def test_a_deleted_workspace_keeps_its_name_until_it_is_purged(client):
    other = WORKSPACE.replace("/ws", "/other")
    body = {"location": "westeurope", "properties": {"storageAccount": ACCOUNT}}
    assert client.put(other, body).status_code == 202
    assert client.ask("DELETE", other).status_code == 202
    assert client.get(other).status_code == 404
    assert error(client.put(other, body)) == (409, "Conflict")
    assert client.ask("DELETE", other, forceToPurge="true").status_code in {200, 204}
    assert client.put(other, body).status_code == 202
    assert client.ask("DELETE", other, forceToPurge="true").status_code == 202
    assert client.put(other, body).status_code == 202
    client.ask("DELETE", other, forceToPurge="true")


def test_a_deleted_vault_keeps_its_name_until_it_is_purged(client):
    vault = f"{PROVIDERS}/Microsoft.KeyVault/vaults/secrets"
    provider = f"{SUBSCRIPTION}/providers/Microsoft.KeyVault"
    deleted = f"{provider}/locations/westeurope/deletedVaults/secrets"
    assert client.put(vault, {"location": "westeurope", "properties": {}}).status_code == 200
    assert client.ask("DELETE", vault).status_code == 200
    assert client.put(vault, {"location": "westeurope"}).status_code == 409
    listed = client.get(f"{provider}/deletedVaults").json()["value"]
    assert [document["properties"]["vaultId"] for document in listed] == [vault]
    assert client.get(deleted).status_code == 200
    assert listed[0]["properties"]["scheduledPurgeDate"] > listed[0]["properties"]["deletionDate"]
    assert client.ask("POST", f"{deleted}/purge").status_code == 202
    assert client.get(deleted).status_code == 404
    protected = {"location": "westeurope", "properties": {"enablePurgeProtection": True}}
    assert client.put(vault, protected).status_code == 200
    client.ask("DELETE", vault)
    assert client.ask("POST", f"{deleted}/purge").status_code == 409
