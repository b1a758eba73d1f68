"""Rules on network exposure: what can be reached, and from where."""

from collections.abc import Iterator, Sequence

from infra.resources import (
    COMPUTE,
    CONTAINER,
    INSIGHTS,
    LOGS,
    REGISTRY,
    STORAGE,
    VAULT,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
)
from infra.rules.expected import (
    UNSET,
    Expected,
    among,
    as_set,
    exactly,
    one_of,
    optional,
    shown,
    table_rule,
    values_at,
)
from infra.rules.facts import of_leaves
from infra.rules.rule import StackRule, named
from infra.settings import Settings


def _public(settings: Settings) -> bool:
    return settings.public


def _listed(settings: Settings) -> Sequence[str]:
    return settings.allowed_addresses if _public(settings) else ()


def _answers(settings: Settings) -> bool:
    """Whether the accounts have public endpoints, which their rules close to all but the listed."""
    return _public(settings) or settings.storage.public_access == "denied"


def _queried(settings: Settings) -> str:
    return "Disabled" if _hidden(settings) and not _public(settings) else "Enabled"


def _hidden(settings: Settings) -> bool:
    """Whether logs are sent through a private endpoint."""
    return "monitor" in settings.endpoint_kinds


LOGGED = as_set(lambda s: "Disabled" if _hidden(s) else "Enabled")
REPORTED = as_set(lambda s: "Enabled" if _public(s) and not _hidden(s) else "Disabled")
QUERIED = {"publicNetworkAccessForQuery": as_set(_queried)}
"""Logs are sent and read over public endpoints, with an Entra sign-in, unless they have a private
endpoint. Nothing reports to Application Insights, so only an open platform lets reports in."""

NO_PUBLIC_ENDPOINT = table_rule(
    "no-public-endpoint",
    "Workspace, registry, vault and storage are reachable through private endpoints only. In the "
    "allowlisted profile the workspace has a public endpoint with Entra sign-in, and storage is "
    "open to the listed addresses.",
    "Disable public access, or choose the network profile that allows it.",
    {
        CONTAINER: {"publicAccess": exactly("None")},
        WORKSPACE: {
            "publicNetworkAccess": as_set(lambda s: "Enabled" if _public(s) else "Disabled"),
            "sharedPrivateLinkResources": UNSET,
        },
        VAULT: {
            "properties.publicNetworkAccess": exactly("Disabled"),
            "properties.networkAcls.defaultAction": exactly("Deny"),
            "properties.networkAcls.bypass": one_of("AzureServices", "None"),
            "properties.networkAcls.ipRules": UNSET,
            "properties.networkAcls.virtualNetworkRules": UNSET,
        },
        REGISTRY: {
            "publicNetworkAccess": exactly("Disabled"),
            "networkRuleBypassOptions": one_of("AzureServices", "None"),
            "networkRuleSet": UNSET,
        },
        STORAGE: {
            "publicNetworkAccess": Expected(
                lambda s: "as set" if _answers(s) else shown("Disabled"),
                lambda given, s: _answers(s) or given == "Disabled",
            ),
            "networkRuleSet.defaultAction": exactly("Deny"),
            "networkRuleSet.bypass": one_of("AzureServices", "None"),
            "networkRuleSet.ipRules[].iPAddressOrRange": optional(
                among(_listed, "an address of allowed_addresses in the allowlisted profile")
            ),
            "networkRuleSet.virtualNetworkRules": UNSET,
            "networkRuleSet.resourceAccessRules": UNSET,
        },
        LOGS: {"publicNetworkAccessForIngestion": LOGGED, **QUERIED},
        INSIGHTS: {"publicNetworkAccessForIngestion": REPORTED, **QUERIED},
    },
)


def _addresses(
    resources: Sequence[Resource], _settings: Settings
) -> Iterator[tuple[Resource | None, str]]:
    paths = {"network:NatGateway": "publicIpAddresses[].id"}
    for one in of_leaves():
        paths |= one.addresses
    used_ids = [
        str(id_)
        for resource in of_kind(resources, *paths)
        for _, id_ in values_at(resource.inputs, paths[resource.kind].split("."))
    ]
    for address in of_kind(resources, "network:PublicIPAddress"):
        name = str(input_at(address, "publicIpAddressName"))
        if not any(named(id_, "Microsoft.Network/publicIPAddresses", name) for id_ in used_ids):
            yield address, "is a public address that belongs to nothing that may have one"


NO_PUBLIC_ADDRESS = StackRule(
    "no-public-address",
    "Only NAT gateways, which allow outbound traffic only, and what is there to be reached from "
    "outside have public addresses.",
    "Remove it; reach the network through peering, or from a machine inside it.",
    _addresses,
)

NODES_WITHOUT_PUBLIC_ADDRESS = table_rule(
    "nodes-without-public-address",
    "Cluster nodes and serverless computes have no public address and accept no SSH from outside.",
    "Set the properties when the cluster is created: Azure cannot change them later.",
    {
        COMPUTE: {
            "properties.properties.enableNodePublicIp": exactly(value=False),
            "properties.properties.remoteLoginPortPublicAccess": exactly("Disabled"),
        },
        WORKSPACE: {
            "serverlessComputeSettings.serverlessComputeNoPublicIP": exactly(value=True),
        },
    },
)

RULES = (NO_PUBLIC_ENDPOINT, NO_PUBLIC_ADDRESS, NODES_WITHOUT_PUBLIC_ADDRESS)
