"""Azure's generated Go modules judge requests to Resource Manager, and the simulator's answers.

The modules are made by Microsoft from Azure's specifications. Their fake servers read the requests
of jobs/ and of the simulator's provider; their clients deploy, read, list and delete stacks on the
simulator.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from rehearsal.control_plane.arm_path import parse
from rehearsal.simulator import Simulator
from tools.conformance.installation import PROGRAMS, run_program
from tools.conformance.sent import STACKS, Sent, declared, deployable, life, recorded
from tools.conformance.verdict import Verdict, explained

_NEWER: Final = (
    "azure-native's API version is newer than that of the module, which does not have it yet; the "
    "SDK of azure-native has."
)
_RECORDED: Final = (
    "The module does not have it; Azure shows it in recorded calls, or the newer API version of"
    " azure-native has it."
)
_WORKSPACE: Final = "Microsoft.MachineLearningServices/workspaces"
REQUESTS: Final[Mapping[str, str]] = {
    f"PUT {_WORKSPACE} 2025-12-01: armmachinelearning does not know": _NEWER,
    "PUT Microsoft.ContainerRegistry/registries 2023-01-01-preview: armcontainerregistry": (
        "azure-native's API version is a preview, which the module does not have."
    ),
    "DELETE Microsoft.KeyVault/vaults/keys 2026-02-01: no module has an operation": (
        "Resource Manager has no operation that deletes a key, and a key that it made ends with its"
        " vault. The simulator's provider deletes it there, so that a teardown leaves nothing."
    ),
    f"DELETE {_WORKSPACE}/computes 2025-12-01: lacks the parameter underlyingResourceAction": (
        "azure-native deletes a cluster without it. Azure accepts that in recorded calls, and so"
        " does the simulator; a teardown deletes the clusters itself, with the parameter, before"
        " Pulumi comes to them."
    ),
}
"""Why a refused request stays, by the beginning of the refusal."""
ANSWERS: Final[Mapping[str, str]] = {
    f"PUT {_WORKSPACE} 2025-12-01: 500 InternalServerError": (
        "The simulator answers so on purpose when an update repeats rules of the managed network."
    ),
    **{
        f"{request}: {module} does not know": _RECORDED
        for module, requests in {
            "armmachinelearning": (
                f"PUT {_WORKSPACE} 2025-12-01",
                f"GET {_WORKSPACE} 2025-12-01",
                "GET Microsoft.MachineLearningServices workspaces 2025-12-01",
                f"PUT {_WORKSPACE}/computes 2025-12-01 computeType=AmlCompute",
                f"GET {_WORKSPACE}/computes 2025-12-01",
                f"GET {_WORKSPACE} computes 2025-12-01",
            ),
            "armauthorization": (
                "PUT Microsoft.Authorization/roleDefinitions 2022-05-01-preview",
                "GET Microsoft.Authorization/roleDefinitions 2022-05-01-preview",
                "GET Microsoft.Authorization roleDefinitions 2022-05-01-preview",
                "DELETE Microsoft.Authorization/roleDefinitions ?underlyingResourceAction"
                " 2022-05-01-preview",
            ),
        }.items()
        for request in requests
    },
}
"""Why an answer that a client does not accept stays."""
_ANSWERED: Final = frozenset(
    {"Microsoft.Authorization", "Microsoft.MachineLearningServices", "Microsoft.ManagedIdentity"}
)
"""Providers whose answers are judged."""


_SPELLED: Final[Mapping[str, str]] = {
    r"/resourceGroups/([^/]+)$": r"/resourcegroups/\1",
    r"/resourceGroups/([^/]+)(?=/providers/Microsoft\.OperationalInsights/workspaces(/[^/]+)?$)": (
        r"/resourcegroups/\1"
    ),
    r"/resourceGroups/([^/]+)/providers/Microsoft\.Insights/autoscaleSettings(?=/)": (
        r"/resourcegroups/\1/providers/Microsoft.Insights/autoscalesettings"
    ),
    r"/Microsoft\.Insights/(?=\w+Scopes(?:/[^/]+)?$)": "/microsoft.insights/",
}
"""Words in lower case in the specifications of some operations. Resource Manager takes either, and
the modules do not."""


@dataclass(frozen=True)
class Judgement:
    """The word of a module about one request or answer."""

    sent: Sent
    module: str
    operation: str
    api_version: str
    problem: str
    unknown: Sequence[str]

    @property
    def refusals(self) -> list[str]:
        """The module's objections, without names of resources."""
        place = self.sent.kind
        problems = [f"{place}: {self.problem}"] if self.problem else []
        return problems + [f"{place}: {self.module} does not know {name}" for name in self.unknown]


def requests(workspace: Path) -> Verdict:
    """Let the fake servers read every request of jobs/ and of the simulator's provider."""
    sent = recorded()
    for stack in STACKS:
        for type_, put in declared(stack):
            sent += life(type_, put)
    said = _ask(workspace, ["requests"], sent)
    return _verdict("fake servers of azure-sdk-for-go", said, "requests", REQUESTS)


def answers(workspace: Path) -> Verdict:
    """Let the clients update, read, list and delete the resources of each deployed stack."""
    said = []
    # The other stacks refer to what lies outside of them.
    for stack in ("dev", "managed"):
        lives = [tuple(life(type_, put)) for type_, put in deployable(stack)]
        sent = [
            *(put for put, *_ in lives),
            *(read for _, read, *_ in lives),
            *_collections(read for _, read, *_ in lives),
            *(
                replace(delete, query="underlyingResourceAction=Delete")
                for _, _, *deletes in reversed(lives)
                for delete in deletes
            ),
        ]
        with Simulator() as azure:
            for put, *_ in lives:
                azure.put(put.path, put.api_version, put.body)
            token = azure.identity.token(azure.environment["AZURE_CLIENT_ID"], azure.url)
            bundle, subscription = azure.certificate.bundle, parse(sent[0].path).subscription
            arguments = ["answers", azure.url, token, str(bundle), subscription]
            said += _ask(
                workspace, arguments, [request for request in sent if _is_answered(request)]
            )
    # Not every type of resource has a collection.
    known = [judgement for judgement in said if judgement.module]
    return _verdict("clients of azure-sdk-for-go", known, "answers of the simulator", ANSWERS)


def _is_answered(sent: Sent) -> bool:
    return parse(sent.path).kind.partition("/")[0] in _ANSWERED


def _collections(reads: Iterable[Sent]) -> list[Sent]:
    """Return the requests that list the neighbours of each resource, each once."""
    return list(dict.fromkeys(replace(read, path=read.path.rpartition("/")[0]) for read in reads))


def _verdict(
    name: str, said: Sequence[Judgement], things: str, reasons: Mapping[str, str]
) -> Verdict:
    judged = [judgement for judgement in said if judgement.module or judgement.problem]
    operations = {(judgement.module, judgement.operation) for judgement in judged}
    return Verdict(
        name,
        _version(),
        f"{len(judged)} of {len(said)} {things}, {len(operations)} operations",
        sum(not judgement.refusals for judgement in judged),
        explained({text for judgement in judged for text in judgement.refusals}, reasons),
    )


def _version() -> str:
    """Return the version of the module of Azure Machine Learning."""
    lock = (PROGRAMS / "control_plane" / "go.mod").read_text()
    match = re.search(r"/(armmachinelearning/v\d+ v[\d.]+)$", lock, re.MULTILINE)
    assert match is not None
    return match[1]


def _spelled(path: str) -> str:
    for pattern, text in _SPELLED.items():
        path = re.sub(pattern, text, path)
    return path


def _ask(workspace: Path, arguments: Sequence[str], sent: Sequence[Sent]) -> list[Judgement]:
    lines = "".join(
        f"{json.dumps(asdict(request) | {'path': _spelled(request.path)})}\n" for request in sent
    )
    printed = run_program([str(workspace / "bin" / "control_plane"), *arguments], text=lines)
    return [
        Judgement(request, **json.loads(line))
        for request, line in zip(sent, printed.splitlines(), strict=True)
    ]
