"""The Azure CLI: commands of the documents and of others' scripts, typed against the simulator.

`az` registers a cloud with the simulator's address and signs in as a service principal.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tools.conformance.installation import ROOT, run_program
from tools.conformance.job_files import WORKSPACE
from tools.conformance.verdict import Verdict, explained

_GROUP: Final = "/subscriptions/s/resourceGroups/examples"
_STORE: Final = f"{_GROUP}/providers/Microsoft.Storage/storageAccounts/examplestore"
_MAIN: Final = f"{_GROUP}/providers/Microsoft.MachineLearningServices/workspaces/main"
_ROLE: Final = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
"""Storage Blob Data Contributor."""
_LOGIN: Final = ("--auth-mode", "login", "--blob-endpoint", "{blobs}")
COMMANDS: Final[Sequence[tuple[str, ...]]] = (
    ("cloud", "register", "--name", "Simulator", "--endpoint-resource-manager", "{url}"),
    ("cloud", "set", "--name", "Simulator"),
    ("login", "--service-principal", "--username", "{client}", "--password", "{secret}",
     "--tenant", "{tenant}"),
    ("account", "show"),
    ("account", "set", "--subscription", "s"),
    ("account", "list-locations"),
    ("account", "get-access-token"),
    ("provider", "register", "--namespace", "Microsoft.Storage", "--wait"),
    ("provider", "show", "--namespace", "Microsoft.Storage"),
    ("group", "create", "--name", "typed", "--location", "westeurope"),
    ("group", "list"),
    ("resource", "list", "--resource-group", "examples"),
    ("resource", "show", "--ids", _MAIN, "--api-version", "2024-10-01"),
    ("rest", "--url", f"{_MAIN}/computes?api-version=2024-10-01"),
    ("identity", "create", "--name", "reader", "--resource-group", "typed"),
    ("role", "assignment", "create", "--assignee-object-id", "{client}",
     "--assignee-principal-type", "ServicePrincipal", "--role", _ROLE, "--scope", _STORE),
    ("role", "assignment", "list", "--scope", _STORE, "--fill-principal-name", "false",
     "--fill-role-definition-name", "false"),
    ("storage", "account", "show", "--name", "examplestore", "--resource-group", "examples"),
    ("storage", "account", "create", "--name", "typedstore", "--resource-group", "typed",
     "--allow-shared-key-access", "false"),
    ("storage", "container", "create", "--name", "texts", *_LOGIN),
    ("storage", "blob", "upload", "--container-name", "texts", "--name", "one.txt", "--data",
     "hello", *_LOGIN),
    ("storage", "blob", "list", "--container-name", "texts", *_LOGIN),
    ("keyvault", "list", "--resource-group", "typed"),
    ("group", "delete", "--name", "typed", "--yes"),
    ("ad", "group", "create", "--display-name", "team", "--mail-nickname", "team"),
    ("ml", "job", "list", "--resource-group", "examples", "--workspace-name", "main"),
)  # fmt: skip
"""Commands in their order, without `az`; names in braces are of the simulator."""
REASONS: Final[Mapping[str, str]] = {
    "az ad group create": "groups are made by Microsoft Graph, which the simulator does not have;"
    " `Simulator.identity` has groups in Python",
    "az role assignment list": "it asks Microsoft Graph for names, and the simulator has none",
    "az ml job list": "the extension ml is not in a package registry; the package azure-ai-ml, on"
    " which it is based, is the judge `job-files`",
}
"""Why a command is refused, by its beginning."""


def judge(workspace: Path) -> Verdict:
    """Type all commands against a simulator."""
    python = str(ROOT / ".venv" / "bin" / "python")
    said = run_program(
        [
            *(python, "-m", "rehearsal", "serve", "--resources", str(WORKSPACE), "--roles", "--"),
            *(python, "-m", "tools.conformance.azure_cli", str(workspace / "bin" / "az")),
        ],
        environment={"PYTHONPATH": str(ROOT)},
    )
    refused: list[str] = json.loads(said.splitlines()[-1])
    (packages,) = (workspace / "lib").glob("python*/site-packages")
    (version,) = (
        distribution.version
        for distribution in distributions(name="azure-cli", path=[str(packages)])
    )
    return Verdict(
        "azure-cli",
        version,
        f"{len(COMMANDS)} commands",
        len(COMMANDS) - len(refused),
        explained(refused, REASONS),
    )


def type_all(az: str) -> list[str]:
    """Type the commands; return those that fail, each with the first line of its error."""
    names = {
        "url": os.environ["AZURE_AUTHORITY_HOST"],
        "client": os.environ["AZURE_CLIENT_ID"],
        "secret": os.environ["AZURE_CLIENT_SECRET"],
        "tenant": os.environ["AZURE_TENANT_ID"],
        "blobs": "",
    }
    refused = []
    with TemporaryDirectory() as folder:
        settings = {
            "AZURE_CONFIG_DIR": folder,
            "AZURE_CORE_COLLECT_TELEMETRY": "false",
            "AZURE_CORE_ONLY_SHOW_ERRORS": "true",
            # Microsoft's sign-in does not know the simulator's address.
            "AZURE_CORE_INSTANCE_DISCOVERY": "false",
            "AZURE_EXTENSION_USE_DYNAMIC_INSTALL": "no",
        }
        # az would take the simulator for one of Azure's own clouds.
        variables = {k: v for k, v in os.environ.items() if k != "ARM_CLOUD_METADATA_URL"}
        for command in COMMANDS:
            done = subprocess.run(
                [az, *(word.format(**names) for word in command)],
                env={**variables, **settings},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                refused.append(f"az {' '.join(command[:3])}: {(lines or [done.stderr])[0][:200]}")
            elif command[:3] == ("storage", "account", "show"):
                names["blobs"] = json.loads(done.stdout)["primaryEndpoints"]["blob"]
    return refused


if __name__ == "__main__":
    # In a process whose environment has the addresses of the simulator.
    print(json.dumps(type_all(sys.argv[1])))
