"""Checkov judges the rendered stacks, as templates of Azure Resource Manager."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from conformance.installation import run_program
from conformance.sent import STACKS, Sent, declared
from conformance.verdict import Verdict, explained
from rehearsal.control_plane.arm_path import parse

SCHEMA: Final = (
    "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"  # its name
)
REASONS: Final[Mapping[str, str]] = {}
"""Why a finding stays, by the check's id and, where it matters, the kind and name of a resource."""


def template(stack: str) -> dict[str, Any]:
    """Return a stack as a template of Azure Resource Manager, with the bodies of its PUTs."""
    resources = [_resource(put) for _, put in declared(stack)]
    return {"$schema": SCHEMA, "contentVersion": "1.0.0.0", "resources": resources}


def judge(workspace: Path) -> Verdict:
    """Let Checkov look at every stack of the snapshots."""
    with tempfile.TemporaryDirectory() as folder:
        for stack in STACKS:
            (Path(folder) / f"{stack}.json").write_text(json.dumps(template(stack), indent=1))
        # Status 1: there are findings.
        printed = run_program(
            [
                *(str(workspace / "bin" / "checkov"), "--directory", folder, "--framework", "arm"),
                *("--output", "json", "--quiet", "--compact", "--skip-download"),
            ],
            environment={"LOG_LEVEL": "ERROR"},
            statuses=(0, 1),
        )
    report = json.loads(printed)
    found: dict[str, set[str]] = {}
    for check in report["results"]["failed_checks"]:
        text = f"{check['check_id']} {check['resource']}: {check['check_name']}"
        found.setdefault(text, set()).add(Path(check["file_path"]).stem)
    summary = report["summary"]
    return Verdict(
        "Checkov",
        summary["checkov_version"],
        f"{summary['resource_count']} resources of {len(STACKS)} stacks",
        summary["passed"],
        explained(
            (f"{text} ({', '.join(sorted(stacks))})" for text, stacks in found.items()), REASONS
        ),
    )


def _resource(put: Sent) -> dict[str, Any]:
    """Return a resource of a template; its name has those of the resources above."""
    kind = parse(put.path).kind
    parts = put.path.rpartition("/providers/")[2].split("/")
    name = "/".join(parts[2::2]) or put.path.rpartition("/")[2]
    return {"type": kind, "apiVersion": put.api_version, "name": name, **put.body}
