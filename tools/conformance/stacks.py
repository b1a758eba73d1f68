"""Checkov judges the rendered stacks, as templates of Azure Resource Manager."""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rehearsal.control_plane.arm_path import parse
from tools.conformance.installation import run_program
from tools.conformance.sent import STACKS, Sent, declared
from tools.conformance.verdict import Verdict, explained

SCHEMA: Final = (
    "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"  # its name
)
REASONS: Final[Mapping[str, str]] = {
    "CKV2_AZURE_49 ": (
        "The profile `allowlisted` opens the endpoint of the workspace, with Entra sign-in; "
        "`private` and `managed` keep it closed."
    ),
    "CKV_AZURE_59 ": (
        "The profile `allowlisted` opens the accounts to `allowed_addresses` alone; the other "
        "profiles keep them closed."
    ),
    "CKV_AZURE_112 ": "`encryption.key_uri` names a key of your own, which may be in an HSM.",
    "CKV_AZURE_40 ": "The stack sets no day after which its data would depend on a new key.",
    "CKV_AZURE_12 ": (
        "The account in `network.flow_logs_to` is that of a security team, whose rules say how "
        "long logs are kept."
    ),
    "CKV_AZURE_50 ": "The extension of the machine signs people in with Entra ID.",
    "CKV_AZURE_206 ": (
        "Copies in a second region would take the data out of the region that was chosen for them. "
        "`storage.default_redundancy` and `storage.data_redundancy` choose copies in three zones."
    ),
    "CKV_AZURE_233 ": "`registry.zone_redundant` switches it on; it cannot be changed later.",
    "CKV_AZURE_166 ": (
        "With quarantine, no job could pull an image before a scanner of your own releases it."
    ),
    "CKV_AZURE_110 ": (
        "A development stack is torn down and made again under the same names, which purge "
        "protection would prevent; production has it."
    ),
    "CKV_AZURE_42 ": "As CKV_AZURE_110: soft delete is on, and the check demands both.",
    "CKV_AZURE_243 ": (
        "The check knows only endpoints in a network that Azure Machine Learning makes. "
        "The workspace has a private endpoint, declared as a resource."
    ),
}
"""Why a finding stays, by the id of the check."""


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
    findings: Counter[tuple[str, str]] = Counter()
    for check in report["results"]["failed_checks"]:
        kind = check["resource"].rpartition(".")[0]
        stack = Path(check["file_path"]).stem
        findings[f"{check['check_id']} {kind}: {check['check_name']}", stack] += 1
    texts = {text for text, _ in findings}
    summary = report["summary"]
    return Verdict(
        "Checkov",
        summary["checkov_version"],
        f"{summary['resource_count']} resources of {len(STACKS)} stacks",
        summary["passed"],
        explained((_with_stacks(text, findings) for text in texts), REASONS),
    )


def _with_stacks(text: str, findings: Mapping[tuple[str, str], int]) -> str:
    """Append the stacks with the number of resources that a finding is about."""
    stacks = [
        f"{number} in {stack}" for (other, stack), number in findings.items() if other == text
    ]
    return f"{text} ({', '.join(sorted(stacks))})"


def _resource(put: Sent) -> dict[str, Any]:
    """Return a resource of a template; its name has those of the resources above."""
    kind = parse(put.path).kind
    parts = put.path.rpartition("/providers/")[2].split("/")
    name = "/".join(parts[2::2]) or put.path.rpartition("/")[2]
    return {"type": kind, "apiVersion": put.api_version, "name": name, **put.body}
