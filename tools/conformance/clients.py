"""Microsoft's clients of Azure Machine Learning for Python and JavaScript read the simulator.

Each has a script in programs/ that lists, reads, creates and deletes, and looks at the answers.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rehearsal.control_plane.arm_path import parse
from rehearsal.options import Options
from rehearsal.resources.computes import COMPUTE
from rehearsal.simulator import Simulator
from tools.conformance.installation import PROGRAMS, run_program
from tools.conformance.sent import Sent, deployable
from tools.conformance.verdict import Verdict, explained

PYTHON: Final[Mapping[str, str]] = {}
"""Reasons to keep answers that the client for Python refuses, by the beginning of the refusal."""
NODE: Final[Mapping[str, str]] = {}
"""The same of the client for JavaScript."""
_PYTHON_CLIENT: Final = "azure-mgmt-machinelearningservices"
_NODE_CLIENT: Final = "@azure/arm-machinelearning"


def python(workspace: Path) -> Verdict:
    """Let the client for Python read a deployed stack."""
    program = str(workspace / "bin" / "python")
    script = str(PROGRAMS / "python_client" / "read.py")
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    version = run_program([program, "-c", ask, _PYTHON_CLIENT]).strip()
    return _verdict(_PYTHON_CLIENT, version, _said([program, script]), PYTHON)


def node(workspace: Path) -> Verdict:
    """Let the client for JavaScript read a deployed stack."""
    lock = json.loads((workspace / "package-lock.json").read_text())
    version = lock["packages"][f"node_modules/{_NODE_CLIENT}"]["version"]
    said = _said(["node", str(workspace / "read.mjs")])
    return _verdict(_NODE_CLIENT, version, said, NODE)


def _said(command: Sequence[str]) -> list[dict[str, str]]:
    """Deploy the development stack on a simulator, and run a script against it."""
    programs = Path(sys.executable).parent
    # Operations take a moment, so that clients have to wait for them.
    with Simulator(options=Options(program_folder=programs, operation_seconds=0.3)) as azure:
        puts = [put for _, put in deployable("dev")]
        for put in puts:
            azure.put(put.path, put.api_version, put.body)
        facts = _facts(next(put for put in puts if parse(put.path).kind == COMPUTE))
        token = azure.identity.token(azure.environment["AZURE_CLIENT_ID"], azure.url)
        printed = run_program(
            [*command, json.dumps({"address": azure.url, "token": token, **facts})],
            environment={
                **azure.environment,
                "NODE_EXTRA_CA_CERTS": str(azure.certificate.bundle),
            },
        )
    return [json.loads(line) for line in printed.splitlines()]


def _facts(cluster: Sent) -> dict[str, str]:
    arm = parse(cluster.path)
    return {
        "subscription": arm.subscription,
        "group": arm.group,
        "workspace": parse(arm.parent).name,
        "cluster": arm.name,
        "size": cluster.body["properties"]["properties"]["vmSize"],
    }


def _verdict(
    judge: str, version: str, said: Sequence[Mapping[str, str]], reasons: Mapping[str, str]
) -> Verdict:
    refused = {
        f"{answer['operation']}: {answer['problem']}" for answer in said if answer["problem"]
    }
    return Verdict(
        judge,
        version,
        f"{len(said)} operations on a deployed stack",
        len(said) - len(refused),
        explained(refused, reasons),
    )
