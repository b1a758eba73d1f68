"""Facts for the security rules about the managed network: its mode, its rules, and who approves."""

from collections.abc import Mapping, Sequence
from typing import Final

from infra.extras.managed_network.leaf import ManagedNetworkSettings, has_firewall, is_managed
from infra.resources import (
    ASSIGNMENT,
    COMPUTE,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
    requirements,
)
from infra.rules.access import guid_of
from infra.rules.expected import ON, as_set, exactly, only_if
from infra.rules.facts import Facts
from infra.rules.literals import ROLES
from infra.rules.own_services import targets
from infra.rules.rule import Faults, Rule, named
from infra.settings import Settings

RULE: Final = "machinelearningservices:ManagedNetworkSettingsRule"
APPROVER: Final = "Azure AI Enterprise Network Connection Approver"
APPROVED_ON: Final = ("default", "data", "vault", "registry")
"""The targets of the endpoints of a managed network."""


def _wanted(resources: Sequence[Resource], settings: Settings) -> dict[object, str]:
    """Return the properties of the rules that a stack asks for, each with words for it."""
    if not is_managed(settings):
        return {}
    data = dict(targets(resources, settings))["data"]
    hosts = settings.of(ManagedNetworkSettings).hosts
    return {("PrivateEndpoint", data): "the account of the training data"} | {
        ("FQDN", host): host for host in hosts
    }


def _allows(rule: Resource, resources: Sequence[Resource], settings: Settings) -> object:
    """Return the traffic that a rule allows, in the form of `_wanted`; None for anything else."""
    properties = input_at(rule, "properties")
    if not isinstance(properties, Mapping) or properties.get("category") != "UserDefined":
        return None
    destination = properties.get("destination")
    if isinstance(destination, Mapping):
        data = dict(targets(resources, settings))["data"]
        rest = {key: value for key, value in destination.items() if key != "serviceResourceId"}
        leads = named(destination.get("serviceResourceId"), *data)
        if not leads or rest != {"subresourceTarget": "blob", "sparkEnabled": False}:
            return None
        destination = data
    return properties.get("type"), destination


def _approved(resources: Sequence[Resource], settings: Settings) -> Faults:
    rules, wanted = of_kind(resources, RULE), _wanted(resources, settings)
    allowing = {rule.key: _allows(rule, resources, settings) for rule in rules}
    for rule in rules:
        if allowing[rule.key] not in wanted:
            yield rule, f"allows {input_at(rule, 'properties')}, which the settings do not ask for"
    for allowed, words in wanted.items():
        if allowed not in allowing.values():
            yield None, f"no rule lets nodes reach {words}"
    needed = requirements(resources) if rules else {}
    for rule in rules:
        for other in rules:
            if rule.key < other.key and not (
                rule.key in needed[other.key] or other.key in needed[rule.key]
            ):
                yield rule, f"is declared at the same time as {other.name}"
    for cluster in of_kind(resources, COMPUTE):
        if missing := [rule.name for rule in rules if rule.key not in needed[cluster.key]]:
            yield cluster, f"does not wait for {' and '.join(missing)}"


APPROVED_OUTBOUND = Rule(
    "approved-outbound",
    "Nodes in a managed network reach the training data through a private endpoint and the hosts "
    "of the settings, and nothing else; the rules are made one after the other, and before the "
    "clusters.",
    "Restore the rule; to let nodes reach another host, name it in managed_network.hosts.",
    of_stack=_approved,
)


def _approves(resources: Sequence[Resource], settings: Settings) -> Faults:
    services = dict(targets(resources, settings))
    given = [
        role for role in of_kind(resources, ASSIGNMENT) if ROLES.get(guid_of(role)) == APPROVER
    ]
    if not is_managed(settings):
        for role in given:
            yield role, f"gives {APPROVER}, but the stack has no managed network"
        return
    if settings.roles == "existing":
        return  # The owner assigns them, and a deployment waits for each.
    for label in APPROVED_ON:
        if not any(named(input_at(role, "scope"), *services[label]) for role in given):
            yield None, f"no one approves the endpoint of the managed network to {label}"


ENDPOINTS_APPROVED = Rule(
    "endpoints-approved",
    "The identity of a workspace with a managed network approves the network's endpoints on every "
    "service, and that of any other approves none.",
    "Restore the role assignment: without it an endpoint stays pending, and jobs fail.",
    of_stack=_approves,
)

FACTS = Facts(
    rules=(APPROVED_OUTBOUND, ENDPOINTS_APPROVED),
    tables={
        "high-business-impact": {
            WORKSPACE: {
                "managedNetwork.isolationMode": as_set(
                    lambda s: "AllowOnlyApprovedOutbound" if is_managed(s) else "Disabled"
                ),
                "managedNetwork.managedNetworkKind": only_if(is_managed, exactly("V1")),
                "managedNetwork.firewallSku": only_if(
                    has_firewall, as_set(lambda s: s.of(ManagedNetworkSettings).firewall)
                ),
                "provisionNetworkNow": only_if(is_managed, ON),
            }
        }
    },
    counts=lambda settings: {
        RULE: (1 + len(settings.of(ManagedNetworkSettings).hosts) if is_managed(settings) else 0)
    },
    references={RULE: {"workspaceName": ("workspace",)}},
    people={"image-publishers": lambda s: s.of(ManagedNetworkSettings).image_publishers},
    grants={
        "workspace": {(label, APPROVER): None for label in APPROVED_ON},
        "image-publishers": {("registry", "AcrPush"): None},
    },
)
