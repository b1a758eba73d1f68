"""Facts for the security rules about the managed network: its mode, its rules, and who approves."""

from collections.abc import Sequence
from typing import Final

from infra.extras.managed_network.leaf import ManagedNetworkSettings, has_firewall, is_managed
from infra.resources import ASSIGNMENT, WORKSPACE, Resource, input_at, of_kind
from infra.rules.access import ROLES, guid_of
from infra.rules.facts import Facts
from infra.rules.own_services import targets
from infra.rules.rule import Faults, Rule, canonical, named
from infra.settings import Settings

RULE: Final = "machinelearningservices:ManagedNetworkSettingsRule"
APPROVER: Final = "Azure AI Enterprise Network Connection Approver"
APPROVED_ON: Final = ("default", "data", "vault", "registry")
"""The targets of the endpoints of a managed network."""


def _wanted(settings: Settings) -> dict[str, str]:
    """Return the destinations that the rules of a stack allow, each with words for it."""
    if not is_managed(settings):
        return {}
    data = {"serviceResourceId": "data", "subresourceTarget": "blob", "sparkEnabled": False}
    hosts = settings.of(ManagedNetworkSettings).hosts
    return {_canonical("PrivateEndpoint", data): "the account of the training data"} | {
        _canonical("FQDN", host): host for host in hosts
    }


def _canonical(type_: object, destination: object, category: object = "UserDefined") -> str:
    return canonical({"type": type_, "category": category, "destination": destination})


def _allows(rule: Resource, data: tuple[str, str]) -> str:
    """Return the destination of a rule, with a label as the id of the account of the data."""
    destination = input_at(rule, "properties.destination")
    if named(input_at(rule, "properties.destination.serviceResourceId"), *data):
        destination = {**destination, "serviceResourceId": "data"}
    type_, category = input_at(rule, "properties.type"), input_at(rule, "properties.category")
    return _canonical(type_, destination, category)


def _approved(resources: Sequence[Resource], settings: Settings) -> Faults:
    rules, wanted = of_kind(resources, RULE), _wanted(settings)
    services = targets(resources, settings)
    allowing = {rule.key: _allows(rule, services["data"]) for rule in rules}
    for rule in rules:
        if allowing[rule.key] not in wanted:
            yield rule, f"allows {input_at(rule, 'properties')}, which the settings do not ask for"
    for allowed, words in wanted.items():
        if allowed not in allowing.values():
            yield None, f"no rule lets nodes reach {words}"
    # With roles: existing the owner assigns them, and a deployment waits for each.
    if is_managed(settings) and settings.roles == "declared":
        given = [
            input_at(role, "scope")
            for role in of_kind(resources, ASSIGNMENT)
            if ROLES.get(guid_of(role)) == APPROVER
        ]
        for label in APPROVED_ON:
            if not any(named(scope, *services[label]) for scope in given):
                yield None, f"no one approves the endpoint of the managed network to {label}"


APPROVED_OUTBOUND = Rule(
    "approved-outbound",
    "Nodes in a managed network reach the training data through a private endpoint and the hosts "
    "of the settings, and nothing else. The workspace's identity approves the network's endpoints "
    "on every service.",
    "Restore the rule or the role, without which an endpoint stays pending, and jobs fail; to let "
    "nodes reach another host, name it in managed_network.hosts.",
    of_stack=_approved,
)


FACTS = Facts(
    rules=(APPROVED_OUTBOUND,),
    tables={
        "high-business-impact": {
            WORKSPACE: {
                "managedNetwork.isolationMode": (
                    lambda s: "AllowOnlyApprovedOutbound" if is_managed(s) else "Disabled"
                ),
                "managedNetwork.managedNetworkKind": lambda s: "V1" if is_managed(s) else None,
                "managedNetwork.firewallSku": (
                    lambda s: s.of(ManagedNetworkSettings).firewall if has_firewall(s) else None
                ),
                "provisionNetworkNow": lambda s: is_managed(s) or None,
            }
        }
    },
    counts=lambda s: {RULE: 1 + len(s.of(ManagedNetworkSettings).hosts) if is_managed(s) else 0},
    references={RULE: {"workspaceName": ("workspace",)}},
    people=lambda s: {"image-publishers": s.of(ManagedNetworkSettings).image_publishers},
    grants=lambda s: {
        "workspace": {(label, APPROVER): None for label in APPROVED_ON if is_managed(s)},
        "image-publishers": {("registry", "AcrPush"): None},
    },
)
