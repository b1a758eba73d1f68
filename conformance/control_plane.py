"""Azure's generated Go modules judge requests to Resource Manager, and the simulator's answers.

The modules are made by Microsoft from Azure's specifications. Their fake servers read the requests
of jobs/ and of the simulator's provider; their clients deploy, read, list and delete stacks on the
simulator.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from conformance.installation import PROGRAMS, run_program
from conformance.sent import STACKS, Sent, declared, life, recorded
from conformance.verdict import ConformanceError, Verdict, explained
from rehearsal.pulumi.provider import types

REQUESTS: Final[Mapping[str, str]] = {}
"""Why a refused request stays."""


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
        return problems + [f"{place}: {self.module} does not know {one}" for one in self.unknown]


def requests(workspace: Path) -> Verdict:
    """Let the fake servers read every request of jobs/ and of the simulator's provider."""
    sent, seen = recorded(), set()
    for stack in STACKS:
        for type_, put in declared(stack):
            sent += life(type_, put)
            seen.add(type_.token)
    if unseen := sorted(types.TYPES.keys() - seen):
        raise ConformanceError(f"no stack of conformance/sent.py declares {', '.join(unseen)}")
    said = _ask(workspace, ["requests"], sent)
    return _verdict("fake servers of azure-sdk-for-go", said, "requests", REQUESTS)


def _verdict(
    name: str, said: Sequence[Judgement], things: str, reasons: Mapping[str, str]
) -> Verdict:
    operations = {(one.module, one.operation) for one in said if one.operation}
    modules = {one.module for one in said if one.module}
    return Verdict(
        f"{name}, {len(modules)} modules",
        _version(),
        f"{len(said)} {things}, {len(operations)} operations",
        sum(not one.refusals for one in said),
        explained({text for one in said for text in one.refusals}, reasons),
    )


def _version() -> str:
    """Return the version of the module of Azure Machine Learning."""
    lock = (PROGRAMS / "control_plane" / "go.mod").read_text()
    found = re.search(r"/(armmachinelearning/v\d+ v[\d.]+)$", lock, re.MULTILINE)
    assert found is not None
    return found[1]


def _ask(workspace: Path, arguments: Sequence[str], sent: Sequence[Sent]) -> list[Judgement]:
    lines = "".join(f"{json.dumps(asdict(one))}\n" for one in sent)
    printed = run_program([str(workspace / "bin" / "control_plane"), *arguments], text=lines)
    return [
        Judgement(one, **json.loads(line))
        for one, line in zip(sent, printed.splitlines(), strict=True)
    ]
