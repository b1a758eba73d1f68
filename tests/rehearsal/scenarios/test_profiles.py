"""The allowlisted profile, and a network of another team."""

import pytest

from rehearsal.pulumi.deployment import SUBSCRIPTION
from tests.rehearsal.scenarios.cloud import QUICK, TINY, WORKSPACES, cloud_in
from tests.rehearsal.support.small_platform import Client

pytestmark = pytest.mark.rehearse_all

THEIRS = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/their-network"
NETWORK = f"{THEIRS}/providers/Microsoft.Network/virtualNetworks/hub"
SUBNETS = {"nodes": "10.9.0.0/24", "images": "10.9.1.0/27", "endpoints": "10.9.2.0/27"}
OFFICE = "52.174.12.7"
ACCOUNTS = "Microsoft.Storage/storageAccounts"
COMPUTES = "Microsoft.MachineLearningServices/workspaces/computes"
ENDPOINTS = "Microsoft.Network/privateEndpoints"
RULES = f"{WORKSPACES}/outboundRules"


def trains(cloud):
    """Whether a run succeeds on the deployed platform."""
    said = cloud.jobs("preflight", "--preset", "digits", "--nodes", "2").out
    assert "a run could start" in said
    said = cloud.jobs(
        "submit", "--preset", "digits", "--nodes", "2", "--name", "one", *QUICK,
        "--", *TINY, "--epochs", "3",
    ).out  # fmt: skip
    return "one-r1: training completed" in said


def test_the_allowlisted_profile_lets_the_office_in_and_out_again(tmp_path):
    with cloud_in(tmp_path) as cloud:
        cloud.deployment.configure("profile", "allowlisted")
        cloud.deployment.configure("allowed_addresses[0]", OFFICE)
        cloud.jobs("up", "--yes", "True")
        access = cloud.outputs.access
        assert access.profile == "allowlisted"
        assert access.allowed_addresses == (OFFICE,)
        assert set(access.public) == {"workspace", "default_storage", "data_storage"}
        assert cloud.azure.resources.get(cloud.workspace)["properties"]["publicNetworkAccess"] == (
            "Enabled"
        )
        for account in cloud.azure.resources.of_kind(ACCOUNTS):
            rules = account["properties"]["networkAcls"]
            assert rules["defaultAction"] == "Deny"
            assert [one["value"] for one in rules["ipRules"]] == [OFFICE]
        assert trains(cloud)

        cloud.deployment.reset()
        cloud.jobs("up", "--yes", "True")
        assert cloud.outputs.access.public == ()
        for account in cloud.azure.resources.of_kind(ACCOUNTS):
            assert account["properties"]["publicNetworkAccess"] == "Disabled"
            assert not account["properties"]["networkAcls"].get("ipRules")
        cloud.pulumi("preview", "--expect-no-changes")


def declare_their_network(azure):
    """The resources of another team, before our stack exists."""
    azure.put(THEIRS, "2024-03-01", {"location": "westeurope"})
    azure.put(NETWORK, "2024-05-01", {
        "location": "westeurope",
        "properties": {
            "addressSpace": {"addressPrefixes": ["10.9.0.0/16"]},
            "subnets": [
                {
                    "name": name,
                    "properties": {
                        "addressPrefix": prefix,
                        "privateLinkServiceNetworkPolicies": "Disabled",
                    },
                }
                for name, prefix in SUBNETS.items()
            ],
        },
    })  # fmt: skip


def test_a_network_of_somebody_else_is_used_and_left_as_it_was(tmp_path):
    with cloud_in(tmp_path) as cloud:
        declare_their_network(cloud.azure)
        before = {one: cloud.azure.resources.get(one) for one in cloud.resources(THEIRS)}
        for key, value in {
            "virtual_network": NETWORK,
            "training_subnet": f"{NETWORK}/subnets/nodes",
            "build_subnet": f"{NETWORK}/subnets/images",
            "endpoints_subnet": f"{NETWORK}/subnets/endpoints",
        }.items():
            cloud.deployment.configure(f"network.existing.{key}", value)
        cloud.jobs("up", "--yes", "True")
        networks = cloud.azure.resources.of_kind("Microsoft.Network/virtualNetworks")
        assert [one["id"] for one in networks] == [NETWORK]
        nodes = {
            one["properties"]["properties"]["subnet"]["id"].rpartition("/")[2]
            for one in cloud.azure.resources.of_kind(COMPUTES)
        }
        assert nodes == {"nodes", "images"}
        endpoints = cloud.azure.resources.of_kind(ENDPOINTS)
        assert endpoints
        for one in endpoints:
            assert one["properties"]["subnet"]["id"] == f"{NETWORK}/subnets/endpoints"
        refused = Client(cloud.azure).ask("DELETE", NETWORK)
        assert refused.json()["error"]["code"] == "InUseSubnetCannotBeDeleted"
        cloud.pulumi("preview", "--expect-no-changes")
        assert trains(cloud)

        cloud.jobs("teardown", "--yes", "True", "--poll-seconds", "0.2")
        assert cloud.groups == ["their-network"]
        after = {one: cloud.azure.resources.get(one) for one in cloud.resources(THEIRS)}
        assert after == before


SCIENTISTS = "0d6b1f6e-0000-4000-8000-000000000002"
MANAGED = {
    "profile": "managed",
    "managed_network.accept_one_way": "true",
    "clusters.build": "null",
    "people.scientists": SCIENTISTS,
    "people.existing_clusters_only": "true",
}


def test_a_managed_network_goes_through_its_whole_life(tmp_path):
    with cloud_in(tmp_path, roles=True, account_seconds=0.05) as cloud:
        cloud.azure.identity.join(cloud.azure.environment["AZURE_CLIENT_ID"], SCIENTISTS)
        for key, value in MANAGED.items():
            cloud.deployment.configure(key, value)
        cloud.jobs("up", "--yes", "True")
        cloud.pulumi("preview", "--expect-no-changes")
        assert cloud.outputs.access.profile == "private"
        workspace = cloud.azure.resources.get(cloud.workspace)["properties"]
        assert workspace["managedNetwork"]["isolationMode"] == "AllowOnlyApprovedOutbound"
        assert workspace["managedNetwork"]["status"]["status"] == "Active"
        [rule] = cloud.azure.resources.of_kind(RULES)
        assert rule["properties"]["status"] == "Active"
        for cluster in cloud.azure.resources.of_kind(COMPUTES):
            assert "subnet" not in cluster["properties"]["properties"]

        cloud.deployment.configure("clusters.preparation.max_nodes", "2")
        cloud.jobs("up", "--yes", "True", "--refresh", "True")
        said = cloud.jobs("drift").out
        assert "no drift" in said.lower()
        assert trains(cloud)
        images = cloud.azure.resources.of_kind(f"{WORKSPACES}/environments/versions")
        registry = cloud.outputs.registry_login_server
        assert images
        for one in images:
            assert one["properties"]["image"].startswith(f"{registry}/trainer-")

        cloud.deployment.reset()
        refused = cloud.jobs("up", "--yes", "True", status=1)
        assert "managedNetwork.isolationMode cannot change" in refused.words
        for key, value in MANAGED.items():
            cloud.deployment.configure(key, value)
        cloud.jobs("teardown", "--yes", "True", "--poll-seconds", "0.2")
        assert cloud.groups == []
