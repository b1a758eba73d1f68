"""The requests that this project sends to Azure Resource Manager.

`requests.json` has one of each kind that the commands of jobs/ send; the tests of jobs/ compare
themselves with it. The requests of the simulator's provider for a stack follow from the stack.
"""

import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from infra.render.render import run
from infra.render.snapshot import STACKS as SNAPSHOTS
from rehearsal.control_plane.arm_path import parse
from rehearsal.pulumi.provider import bodies, types
from rehearsal.pulumi.provider.resource_type import ResourceType, identifier
from tests.infra.mutations.run import OVERRIDES, STACK
from tests.infra.support.stacks import file_of
from tools.conformance.installation import ROOT

STACKS: Final[Mapping[str, tuple[str, Mapping[str, object], Path | None]]] = {
    **SNAPSHOTS,
    "everything": (STACK, OVERRIDES, file_of(STACK)),
}
"""Stacks whose resources are judged: those of the snapshots, and one with every leaf."""
RECORDED: Final = ROOT / "tools" / "conformance" / "requests.json"


@dataclass(frozen=True)
class Sent:
    """One request."""

    method: str
    path: str
    query: str
    """Parameters but the API version."""
    api_version: str
    body: Any = None

    @property
    def kind(self) -> str:
        """Method, kind of resource, collection or action, names of the parameters, API version, and
        variant of the body.
        """
        # The list of all subscriptions is below no subscription.
        of_all = self.path.rstrip("/") == "/subscriptions"
        arm = None if of_all else parse(self.path)
        place = (arm.kind, arm.tail) if arm else ("Microsoft.Resources", "subscriptions")
        properties = self.body.get("properties") if isinstance(self.body, dict) else None
        # Such as jobType, which decides the other properties; not the size of a machine.
        variant = [
            f"{name}={value}"
            for name, value in sorted((properties or {}).items())
            if name.endswith("Type") and name != "instanceType" and isinstance(value, str)
        ]
        query = "&".join(sorted(dict(urllib.parse.parse_qsl(self.query))))
        words = (self.method, *place, query and f"?{query}", self.api_version, *variant)
        return " ".join(word for word in words if word)


def recorded() -> list[Sent]:
    """Read requests.json."""
    return [Sent(**request) for request in json.loads(RECORDED.read_text())]


def write(sent: Iterable[Sent]) -> None:
    """Write requests.json: one request of each kind, by kind."""
    kinds = {request.kind: request for request in sent}
    lines = ",\n".join(json.dumps(asdict(kinds[kind])) for kind in sorted(kinds))
    RECORDED.write_text(f"[\n{lines}\n]\n")


@cache
def declared(stack: str) -> tuple[tuple[ResourceType, Sent], ...]:
    """Return the PUT of every resource of one of the `STACKS`, in the order of the program."""
    puts = []
    for resource in run(*STACKS[stack]).resources:
        type_ = types.find(resource.type)
        if type_ is not None:
            path = identifier(type_, resource.inputs, resource.id.split("/")[2])
            body = _plain(bodies.body(type_, resource.inputs))
            puts.append((type_, Sent("PUT", path, "", type_.api_version, body)))
    return tuple(puts)


def deployable(stack: str) -> list[tuple[ResourceType, Sent]]:
    """Return the `declared` resources, without roles in the container that Azure Machine Learning
    makes.

    Its name has an id that the workspace gets when it is made, and that a rendered stack guesses.
    """
    return [row for row in declared(stack) if "/containers/azureml-blobstore-" not in row[1].path]


def life(type_: ResourceType, put: Sent) -> Iterator[Sent]:
    """Yield the requests of a resource: PUT, GET and, unless it ends with its parent, DELETE."""
    yield put
    yield replace(put, method="GET", body=None)
    if not type_.comes_with_parent:
        yield replace(put, method="DELETE", body=None)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
