"""Steps for the platform: deploy, change, repair and tear down."""

from typing import Any, Final

from rehearsal.cycle.context import CycleContext, Findings, require
from rehearsal.resources.storage import ACCOUNT
from rehearsal.resources.vaults import DELETED_KIND as DELETED_VAULT
from rehearsal.resources.workspaces import DELETED, WORKSPACE

_DRIFT: Final = 26
"""Exit status of `python -m jobs drift` if it has found any."""


def preview(context: CycleContext) -> Findings:
    """Preview the deployment."""
    context.facts.declared = context.jobs_json("preview")["changeSummary"].get("create", 0)
    require(context.facts.declared > 0, "the preview lists no resource to create")
    return [f"{context.facts.declared} resources to create"]


def deploy(context: CycleContext) -> Findings:
    """Deploy the platform."""
    context.jobs("up", "--yes", "True")
    created, foreseen = len(_resources(context)), context.facts.declared
    require(created == foreseen, f"{created} resources were created, the preview listed {foreseen}")
    return [f"{created} created"]


def deploy_again(context: CycleContext) -> Findings:
    """Deploy again: `--expect-no-changes` makes Pulumi fail on any change."""
    context.pulumi("up", "--yes", "--expect-no-changes")
    return [f"no changes to {context.facts.declared} resources"]


def read_outputs(context: CycleContext) -> Findings:
    """Read the outputs that jobs depend on."""
    outputs = context.facts.outputs = context.pulumi_json("stack", "output", "platform", "--json")
    gpu = outputs["clusters"]["gpu"]
    require(
        context.azure.resources.get(context.workspace) is not None,
        f"workspace {outputs['workspace']} is in the outputs, but does not exist in Azure",
    )
    return [
        f"workspace {outputs['workspace']}",
        f"cluster {gpu['name']}: 0 to {gpu['max_nodes']} x {gpu['size']}, {gpu['priority']}",
    ]


def change(context: CycleContext) -> Findings:
    """Change a setting, and check that exactly that is deployed."""
    nodes = context.facts.outputs["clusters"]["gpu"]["max_nodes"]
    context.stack.configure("clusters.gpu.max_nodes", str(nodes - 1))
    steps = context.pulumi_json("preview", "--json")["steps"]
    changed = [list(step["detailedDiff"] or ()) for step in steps if step["op"] != "same"]
    path = "properties.properties.scaleSettings.maxNodeCount"
    require(changed == [[path]], f"the preview shows changes of {changed}, expected only {path}")
    context.jobs("up", "--yes", "True")
    cluster = context.azure.resources.get(context.cluster("gpu"))
    scale = cluster["properties"]["properties"]["scaleSettings"] if cluster else {}
    require(scale.get("maxNodeCount") == nodes - 1, f"after the update the cluster has {scale}")
    return [f"1 to update: maxNodeCount: {nodes} => {nodes - 1}"]


def drift(context: CycleContext) -> Findings:
    """Change a property outside Pulumi, and check that Pulumi detects and repairs just that."""
    azure = context.azure
    accounts = azure.resources.of_kind(ACCOUNT)
    (account,) = [account for account in accounts if account["kind"] == "StorageV2"]
    azure.resources.update(account["id"], {"publicNetworkAccess": "Enabled"})
    drift = context.jobs_json("drift", status=_DRIFT)["drift"]
    changes = [(change["operation"], change["properties"]) for change in drift]
    expected = [("update", ["publicNetworkAccess"])]
    require(changes == expected, f"the drift is {changes}, expected {expected}")
    context.jobs("up", "--yes", "True", "--refresh", "True")
    now = azure.resources.get(account["id"]) or {"properties": {}}
    repaired = now["properties"].get("publicNetworkAccess") == "Disabled"
    require(repaired, "the next deployment did not repair the drift")
    return ["found the change of publicNetworkAccess", "the next deployment repaired it"]


def teardown(context: CycleContext) -> Findings:
    """Delete the platform."""
    context.jobs("teardown", "--yes", "True", "--poll-seconds", "0.5")
    resources, deleted = context.azure.resources, context.azure.store.below(DELETED)
    left = [
        *(group["id"] for group in resources.of_kind("Microsoft.Resources/resourceGroups")),
        *(workspace["id"] for workspace in resources.of_kind(WORKSPACE)),
        *(f"deleted {workspace['id']}" for workspace in deleted),
        *(f"deleted {vault['id']}" for vault in resources.of_kind(DELETED_VAULT)),
        *(f"{urn} in Pulumi's state" for urn in _urns(context)),
    ]
    require(not left, f"not deleted: {', '.join(left)}")
    return ["nothing left: no resource, nothing soft-deleted, empty Pulumi state"]


def _urns(context: CycleContext) -> list[str]:
    """Return the URNs of the Azure resources in the stack's state."""
    return [
        str(resource["urn"])
        for resource in _resources(context)
        if resource["type"].startswith("azure-native:")
    ]


def _resources(context: CycleContext) -> list[Any]:
    """Return all resources in the stack's state: Azure's, the stack itself and its provider."""
    state = context.pulumi_json("stack", "export")
    return list(state["deployment"].get("resources") or ())


def teardown_again(context: CycleContext) -> Findings:
    """Delete the platform again, when it is gone already."""
    context.jobs("teardown", "--yes", "True", "--poll-seconds", "0.5")
    return ["nothing to delete, no error"]
