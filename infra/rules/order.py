"""The rule on order: what must exist before the workspace and before its clusters, and what must
not be waited for, as Azure may refuse it until a first job.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from infra.resources import (
    COMPUTE,
    WORKSPACE,
    Resource,
    entries_at,
    input_at,
    of_kind,
    requirements,
)
from infra.rules.access import assigned
from infra.rules.endpoints import PRIVATE_ENDPOINT
from infra.rules.literals import IDENTITY_OF_DUTY
from infra.rules.rule import StackRule
from infra.settings import Settings

LATE: Final = ("default/job-logs", "default/job-outputs")
"""Targets of roles on the containers that Azure Machine Learning makes."""


def _faults(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    needed = requirements(resources)
    roles = list(assigned(resources, settings))
    late = {one.key for one, _, target in roles if target in LATE}
    to_services: set[str] = set()
    to_workspace: set[str] = set()
    for endpoint in of_kind(resources, PRIVATE_ENDPOINT):
        links = entries_at(endpoint, "privateLinkServiceConnections")
        groups = {group for link in links for group in link.get("groupIds") or ()}
        name = input_at(endpoint, "privateEndpointName")
        parts = [endpoint] + [
            one
            for one in of_kind(resources, "network:PrivateDnsZoneGroup")
            if input_at(one, "privateEndpointName") == name
        ]
        if "amlworkspace" in groups:
            to_workspace.update(one.key for one in parts)
        elif groups & {"blob", "file", "vault", "registry"}:
            to_services.update(one.key for one in parts)
    of_workspace = {one.key: target for one, holder, target in roles if holder == "workspace"}
    on_itself = {key for key, target in of_workspace.items() if target == "workspace"}
    duties = {settings.cluster_name(key): one.duty for key, one in settings.clusters.items()}
    for one in of_kind(resources, WORKSPACE):
        yield from _waits(one, needed, {*to_services, *of_workspace} - on_itself, late)
    for one in of_kind(resources, COMPUTE):
        duty = duties.get(str(input_at(one, "computeName")))
        holder = IDENTITY_OF_DUTY[duty] if duty else None
        own = {role.key for role, of, target in roles if of == holder and target not in ("", *LATE)}
        yield from _waits(one, needed, {*to_workspace, *on_itself, *own}, late)


def _waits(
    resource: Resource, needed: dict[str, frozenset[str]], wanted: set[str], late: set[str]
) -> Iterator[tuple[Resource | None, str]]:
    before = needed[resource.key]
    if missing := sorted(one.rpartition("::")[2] for one in wanted - before):
        yield resource, f"does not wait for {', '.join(missing)}"
    if waits := sorted(one.rpartition("::")[2] for one in late & before):
        yield resource, f"waits for {', '.join(waits)}, which Azure may refuse until a first job"


ORDER = StackRule(
    "order",
    "The workspace waits for its identity's roles and for the endpoints of its services, and each "
    "cluster for the workspace's endpoint and its jobs' roles, but not for roles on containers "
    "that may exist only after a first job.",
    "Restore the dependency (dependsOn).",
    _faults,
)

RULES = (ORDER,)
