"""Accounts, registries and workspaces of logs are given what Azure gives them."""

from tests.rehearsal.support.small_platform import PROVIDERS


def test_an_account_comes_with_the_services_of_its_kind(client):
    accounts = f"{PROVIDERS}/Microsoft.Storage/storageAccounts"
    for name, kind, expected in (
        ("general", "StorageV2", 200),
        ("blocks", "BlockBlobStorage", 404),
    ):
        assert client.put(f"{accounts}/{name}", {"location": "westeurope", "kind": kind}).ok
        assert client.get(f"{accounts}/{name}/blobServices/default").ok
        files = client.get(f"{accounts}/{name}/fileServices/default")
        assert files.status_code == expected
        assert client.ask("DELETE", f"{accounts}/{name}").ok


def test_registries_and_logs_are_given_addresses_and_ids(client):
    registry = f"{PROVIDERS}/Microsoft.ContainerRegistry/registries/Images"
    logs = f"{PROVIDERS}/Microsoft.OperationalInsights/workspaces/logs"
    shown = client.put(registry, {"location": "westeurope"}).json()["properties"]
    assert shown["loginServer"] == "images.azurecr.io"
    first = client.put(logs, {"location": "westeurope"}).json()["properties"]["customerId"]
    again = client.put(logs, {"location": "westeurope", "tags": {}}).json()["properties"]
    assert again["customerId"] == first
    for identifier in (registry, logs):
        assert client.ask("DELETE", identifier).ok


def test_a_registry_has_one_copy_in_a_region_and_shows_where_its_data_are(client):
    registry = f"{PROVIDERS}/Microsoft.ContainerRegistry/registries/copied"
    basic, premium = ({"location": "westeurope", "sku": {"name": n}} for n in ("Basic", "Premium"))

    def copy(name, region):
        return client.put(f"{registry}/replications/{name}", {"location": region})

    def refusal(name, region):
        return copy(name, region).json()["error"]["message"]

    assert client.put(registry, basic).ok
    assert "has no geo-replication" in refusal("north", "northeurope")
    assert client.put(registry, premium).ok
    assert copy("north", "northeurope").ok
    assert copy("north", "northeurope").ok
    for region in ("westeurope", "northeurope"):
        assert "already has a copy" in refusal("again", region)
    assert client.get(registry).json()["properties"]["dataEndpointHostNames"] == [
        "copied.westeurope.data.azurecr.io",
        "copied.northeurope.data.azurecr.io",
    ]
    assert client.ask("DELETE", registry).ok
