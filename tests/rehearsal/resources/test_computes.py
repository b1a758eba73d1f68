"""Compute clusters: how they are deleted and changed, and the cores that they use."""

from rehearsal.resources import quotas
from tests.rehearsal.support.small_platform import CLUSTER, SUBSCRIPTION, WORKSPACE, compute

LOCATION = f"{SUBSCRIPTION}/providers/Microsoft.MachineLearningServices/locations/westeurope"


def test_a_cluster_is_deleted_with_and_without_the_parameter(client):
    cluster = f"{WORKSPACE}/computes/other"
    assert client.put(cluster, compute()).status_code == 201
    assert client.ask("DELETE", cluster, underlyingResourceAction="Delete").status_code == 202
    assert client.get(cluster).status_code == 404
    assert client.put(cluster, compute()).status_code == 201
    assert client.ask("DELETE", cluster).status_code == 202
    assert client.get(cluster).status_code == 404


def test_a_cluster_cannot_become_another_size(client):
    other = compute()
    other["properties"]["properties"]["vmSize"] = "Standard_D2"
    refused = client.put(CLUSTER, other)
    assert refused.status_code == 400
    assert "vmSize cannot be changed" in refused.json()["error"]["message"]


def test_sizes_tell_their_cores_and_family():
    assert quotas.cores("Standard_ND40rs_v2") == 40
    assert quotas.family("Standard_D16ads_v5") == "standardDADSv5Family"


def test_cores_are_counted(client, azure):
    azure.admin.quota("westeurope", "totalLowPriorityCores", 80)
    usages = {
        usage["name"]["value"]: usage for usage in client.get(f"{LOCATION}/usages").json()["value"]
    }
    low = usages["TotalLowPriorityCores"]
    assert "standardNDSv2Family" in usages
    assert (low["limit"], low["unit"]) == (80, "Count")
    assert low["currentValue"] % 40 == 0
    sizes = {size["name"]: size for size in client.get(f"{LOCATION}/vmSizes").json()["value"]}
    assert sizes["Standard_ND40rs_v2"]["vCPUs"] == 40


def test_a_machine_of_others_is_attached_and_detached_or_deleted(client):
    machine = f"{SUBSCRIPTION}/resourceGroups/theirs/providers/Microsoft.Compute/virtualMachines/m"
    size = {"hardwareProfile": {"vmSize": "STANDARD_D1_V2"}}
    attached = f"{WORKSPACE}/computes/attached"
    body = {
        "location": "westeurope",
        "properties": {"computeType": "VirtualMachine", "resourceId": machine, "properties": {}},
    }
    assert client.put(attached, body).status_code == 400
    client.azure.put(machine.rpartition("/providers/")[0], "", {"location": "westeurope"})
    client.azure.put(machine, "", {"location": "westeurope", "properties": size})
    for action in ("Detach", "Delete"):
        assert client.put(attached, body).status_code == 201
        known = client.get(attached).json()["properties"]
        assert known["isAttachedCompute"] is True
        assert known["resourceId"] == machine
        # As in the recorded answer, which has no nodes.
        assert set(known["properties"]) == {
            "virtualMachineSize", "sshPort", "notebookServerPort", "address", "ipAddress",
            "administratorAccount", "imageVersion", "applicationUris", "createdBy",
        }  # fmt: skip
        assert client.get(f"{LOCATION}/usages").ok
        assert client.get(f"{LOCATION}/vmSizes").ok
        assert client.ask("DELETE", attached, underlyingResourceAction=action).status_code == 202
        assert bool(client.azure.resources.get(machine)) == (action == "Detach")
