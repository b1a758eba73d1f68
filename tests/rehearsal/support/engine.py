"""Commands of Pulumi's engine."""

import json

from infra.render.render import render


def ran(deployment, *arguments):
    """What Pulumi says to a command that succeeds."""
    ended = deployment.run(*arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def exported(deployment):
    """The document of the stack's state."""
    return json.loads(ran(deployment, "stack", "export"))


def resource_count():
    """How many resources Pulumi counts in the development stack: the stack itself too."""
    return len(render("dev", {})) + 1


def azure_resources(deployment):
    """Resources of Azure that Pulumi knows."""
    resources = exported(deployment)["deployment"].get("resources", [])
    return [resource for resource in resources if resource["type"].startswith("azure-native:")]
