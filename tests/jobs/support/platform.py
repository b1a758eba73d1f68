"""Outputs of stacks, and jobs on their platforms."""

from infra import outputs
from infra.naming import Names
from infra.outputs import PlatformOutputs
from jobs.azure.clusters import ClusterNodes
from jobs.spec.builder import SoftwareVersions
from jobs.spec.run_key import RunAttempt

SOFTWARE = SoftwareVersions(
    "trainer-gpu:5f0c2f7e8a91b3d4", "trainer-cpu:0b7a6c5d4e3f2a1b", "c0ffee0123456789"
)
FIRST = RunAttempt("resnet50-imagenet")


def guid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


CPU = ("Standard_D16ads_v5", 0, False, "Dedicated")
DUTY_GUIDS = {"train": guid(4), "prepare": guid(5), "build": guid(6)}


def cluster_nodes(**changes) -> ClusterNodes:
    """State of a cluster without nodes."""
    known = {"cluster": "gpu", "size": "Standard_ND40rs_v2", "priority": "LowPriority"}
    return ClusterNodes(**{**known, "allocated": 0, "target": 0, "max_nodes": 4, **changes})


def platform(
    *,
    profile="private",
    size="Standard_ND40rs_v2",
    gpus=8,
    infiniband=True,
    max_nodes=16,
    dedicated=False,
    priority="LowPriority",
) -> PlatformOutputs:
    names = Names("hvd", "dev", "westeurope", subscription=guid(2))

    def cluster(key, duty, size, gpus, infiniband, priority, nodes):
        name, identity = names.cluster(key, duty, size, priority), DUTY_GUIDS[duty]
        return outputs.Cluster(name, duty, size, gpus, infiniband, priority, nodes, identity)

    clusters = {
        "gpu": cluster("gpu", "train", size, gpus, infiniband, priority, max_nodes),
        "preparation": cluster("preparation", "prepare", *CPU, 4),
        "build": cluster("build", "build", *CPU, 1),
        "cpu": cluster("cpu", "train", *CPU, 4),
    }
    if dedicated:
        clusters["gpu_dedicated"] = cluster(
            "gpu_dedicated", "train", size, gpus, infiniband, "Dedicated", 2
        )

    def store(container, account, role):
        endpoint = f"https://{account}.blob.core.windows.net"
        return outputs.Datastore(names.datastore(container), account, endpoint, container, role)

    access = outputs.Access("private", (), ())
    if profile == "allowlisted":
        access = outputs.Access(
            "allowlisted", ("20.103.0.0/24",), ("workspace", "default_storage", "data_storage")
        )
    providers = f"/subscriptions/{guid(2)}/resourceGroups/{names.resource_group}/providers"
    return PlatformOutputs(
        tenant_id=guid(1),
        subscription_id=guid(2),
        resource_group=names.resource_group,
        region="westeurope",
        stack="dev",
        workspace=names.workspace,
        clusters=clusters,
        datastores=outputs.Datastores(
            raw=store("raw", names.data_storage, "read"),
            prepared=store("prepared", names.data_storage, "read"),
            results=store("results", names.default_storage, "write"),
        ),
        identities=outputs.Identities(guid(3), guid(4), guid(5), guid(6)),
        registry_login_server=f"{names.registry}.azurecr.io",
        vault_uri=f"https://{names.vault}.vault.azure.net/",
        access=access,
        serving=outputs.Serving(
            f"{providers}/Microsoft.ManagedIdentity/userAssignedIdentities/serving",
            f"{providers}/Microsoft.OperationalInsights/workspaces/logs",
            f"{providers}/Microsoft.Insights/actionGroups/people",
        ),
    )
