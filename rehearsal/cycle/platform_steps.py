"""Steps for the platform: deploy, change, repair and tear down."""

import json
from pathlib import Path

from rehearsal.cycle import output_parsing
from rehearsal.cycle.context import CycleContext, Findings, require
from rehearsal.resources.storage import ACCOUNT
from rehearsal.resources.vaults import DELETED_KIND as DELETED_VAULT
from rehearsal.resources.workspaces import DELETED, WORKSPACE


def preview(context: CycleContext) -> Findings:
    """Preview the deployment."""
    output = context.jobs("preview")
    context.facts.declared = output_parsing.changes(output.text).get("to create", 0)
    require(context.facts.declared > 0, "the preview lists no resource to create")
    return [f"{context.facts.declared} resources to create"]


def deploy(context: CycleContext) -> Findings:
    """Deploy the platform."""
    output = context.jobs("up", "--yes", "True")
    created = output_parsing.changes(output.text).get("created", 0)
    foreseen = context.facts.declared
    require(created == foreseen, f"{created} resources were created, the preview listed {foreseen}")
    return [f"{created} created"]


def deploy_again(context: CycleContext) -> Findings:
    """Deploy again: `--expect-no-changes` makes Pulumi fail on any change."""
    output = context.pulumi("up", "--yes", "--expect-no-changes")
    same = output_parsing.changes(output.text).get("unchanged", 0)
    require(same == context.facts.declared, f"{same} of {context.facts.declared} are unchanged")
    return [f"no changes: {same} unchanged"]


def read_outputs(context: CycleContext) -> Findings:
    """Read the outputs that jobs depend on."""
    output = context.pulumi("stack", "output", "platform", "--json", separate=True)
    outputs = json.loads(output.answer)
    context.facts.outputs = outputs
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
    output = context.pulumi("preview", "--diff")
    difference = f"maxNodeCount: {nodes} => {nodes - 1}"
    _require_one_update(context, "Pulumi's preview shows", output.text, difference, output.log)
    context.jobs("up", "--yes", "True")
    cluster = context.azure.resources.get(context.cluster("gpu"))
    scale = cluster["properties"]["properties"]["scaleSettings"] if cluster else {}
    require(scale.get("maxNodeCount") == nodes - 1, f"after the update the cluster has {scale}")
    return [f"1 to update: {difference}"]


def drift(context: CycleContext) -> Findings:
    """Change a property outside Pulumi, and check that Pulumi detects and repairs just that."""
    azure = context.azure
    accounts = azure.resources.of_kind(ACCOUNT)
    (account,) = [account for account in accounts if account["kind"] == "StorageV2"]
    azure.resources.update(account["id"], {"publicNetworkAccess": "Enabled"})
    output = context.pulumi("refresh", "--preview-only", "--diff")
    difference = 'publicNetworkAccess: "Disabled" => "Enabled"'
    _require_one_update(context, "the refresh shows", output.text, difference, output.log)
    context.pulumi("up", "--yes", "--refresh")
    now = azure.resources.get(account["id"]) or {"properties": {}}
    repaired = now["properties"].get("publicNetworkAccess") == "Disabled"
    require(repaired, "the next deployment did not repair the drift")
    return [f"found {difference}", "the next deployment repaired it"]


def _require_one_update(
    context: CycleContext, subject: str, text: str, difference: str, log: Path
) -> None:
    """Require that Pulumi shows one difference, and nothing else."""
    counted, differences = output_parsing.changes(text), output_parsing.differences(text)
    expected = {"to update": 1, "unchanged": context.facts.declared - 1}
    require(counted == expected, f"{subject} {counted}, expected {expected}", log)
    require(difference in differences, f"{subject} {differences}, expected {difference}", log)


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
    output = context.pulumi("stack", "export", separate=True)
    resources = json.loads(output.answer)["deployment"].get("resources") or []
    return [
        resource["urn"] for resource in resources if resource["type"].startswith("azure-native:")
    ]


def teardown_again(context: CycleContext) -> Findings:
    """Delete the platform again, when it is gone already."""
    context.jobs("teardown", "--yes", "True", "--poll-seconds", "0.5")
    return ["nothing to delete, no error"]
