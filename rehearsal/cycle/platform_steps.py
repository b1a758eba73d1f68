"""Steps of the platform: deployed, changed, repaired and taken away."""

import json

from rehearsal.cycle import output_parsing
from rehearsal.cycle.context import Scene
from rehearsal.cycle.findings import Found, require
from rehearsal.resources.storage import ACCOUNT
from rehearsal.resources.vaults import DELETED_KIND as DELETED_VAULT
from rehearsal.resources.workspaces import DELETED, WORKSPACE


def preview(scene: Scene) -> Found:
    """Show what would be deployed."""
    scene.learnt.declared = output_parsing.changes(scene.jobs("preview").text).get("to create", 0)
    require(scene.learnt.declared > 0, "the preview foresees no resource")
    return [f"{scene.learnt.declared} resources to create"]


def deploy(scene: Scene) -> Found:
    """Deploy the platform."""
    said = scene.jobs("up", "--yes", "True")
    made = output_parsing.changes(said.text).get("created", 0)
    foreseen = scene.learnt.declared
    require(made == foreseen, f"{made} resources were created, {foreseen} were foreseen")
    return [f"{made} created"]


def deploy_again(scene: Scene) -> Found:
    """Deploy what is deployed: Pulumi refuses if there is any change."""
    said = scene.pulumi("up", "--yes", "--expect-no-changes")
    same = output_parsing.changes(said.text).get("unchanged", 0)
    require(same == scene.learnt.declared, f"{same} of {scene.learnt.declared} are unchanged")
    return [f"no changes: {same} unchanged"]


def read_outputs(scene: Scene) -> Found:
    """Read what jobs are wired to."""
    said = scene.pulumi("stack", "output", "platform", "--json", separate=True)
    outputs = json.loads(said.answer)
    scene.learnt.outputs = outputs
    gpu = outputs["clusters"]["gpu"]
    require(
        scene.azure.resources.get(scene.workspace) is not None,
        f"workspace {outputs['workspace']} is in the outputs, but not in Azure",
    )
    return [
        f"workspace {outputs['workspace']}",
        f"cluster {gpu['name']}: 0 to {gpu['max_nodes']} x {gpu['size']}, {gpu['priority']}",
    ]


def change(scene: Scene) -> Found:
    """Change a setting, and deploy exactly that."""
    most = scene.learnt.outputs["clusters"]["gpu"]["max_nodes"]
    scene.stack.configure("clusters.gpu.max_nodes", str(most - 1))
    said = scene.pulumi("preview", "--diff")
    counted, differs = output_parsing.changes(said.text), output_parsing.differences(said.text)
    expected = {"to update": 1, "unchanged": scene.learnt.declared - 1}
    require(counted == expected, f"Pulumi foresees {counted}, expected was {expected}", said.log)
    wanted = f"maxNodeCount: {most} => {most - 1}"
    require(wanted in differs, f"the difference is {differs}, expected was {wanted}", said.log)
    scene.jobs("up", "--yes", "True")
    cluster = scene.azure.resources.get(scene.cluster("gpu"))
    scale = cluster["properties"]["properties"]["scaleSettings"] if cluster else {}
    require(scale.get("maxNodeCount") == most - 1, f"deployed, but the cluster has {scale}")
    return [f"1 to update: {wanted}"]


def drift(scene: Scene) -> Found:
    """Edit a property behind Pulumi's back, find exactly that, and mend it."""
    azure = scene.azure
    (account,) = [one for one in azure.resources.of_kind(ACCOUNT) if one["kind"] == "StorageV2"]
    azure.resources.update(account["id"], {"publicNetworkAccess": "Enabled"})
    said = scene.pulumi("refresh", "--preview-only", "--diff")
    counted, differs = output_parsing.changes(said.text), output_parsing.differences(said.text)
    expected = {"to update": 1, "unchanged": scene.learnt.declared - 1}
    require(counted == expected, f"refresh finds {counted}, expected was {expected}", said.log)
    wanted = 'publicNetworkAccess: "Disabled" => "Enabled"'
    require(wanted in differs, f"refresh finds {differs}, expected was {wanted}", said.log)
    scene.pulumi("up", "--yes", "--refresh")
    now = azure.resources.get(account["id"]) or {"properties": {}}
    mended = now["properties"].get("publicNetworkAccess") == "Disabled"
    require(mended, "the next deployment did not mend it")
    return [f"found {wanted}", "the next deployment mended it"]


def teardown(scene: Scene) -> Found:
    """Delete everything."""
    scene.jobs("teardown", "--yes", "True", "--poll-seconds", "0.5")
    left = [
        *(one["id"] for one in scene.azure.resources.of_kind("Microsoft.Resources/resourceGroups")),
        *(one["id"] for one in scene.azure.resources.of_kind(WORKSPACE)),
        *(f"deleted {one['id']}" for one in scene.azure.store.below(DELETED, "")),
        *(f"deleted {one['id']}" for one in scene.azure.resources.of_kind(DELETED_VAULT)),
        *(f"{one} in Pulumi's state" for one in _known(scene)),
    ]
    require(not left, f"still there: {', '.join(left)}")
    return ["nothing left: no resource, nothing in soft delete, no state"]


def _known(scene: Scene) -> list[str]:
    """Resources of Azure in the stack's state."""
    said = scene.pulumi("stack", "export", separate=True)
    found = json.loads(said.answer)["deployment"].get("resources") or []
    return [one["urn"] for one in found if one["type"].startswith("azure-native:")]


def teardown_again(scene: Scene) -> Found:
    """Delete what is gone."""
    scene.jobs("teardown", "--yes", "True", "--poll-seconds", "0.5")
    return ["harmless"]
