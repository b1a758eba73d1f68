"""Mutations that no rule catches, each with the reason why that does no harm.

A row is a regular expression for KIND PATH: CHANGE. A row that no mutation needs fails the test, so
the list cannot grow stale.
"""

from collections.abc import Mapping
from typing import Final

NAME: Final = "a name opens nothing; other rules hold what refers to it"
REFUSED: Final = "the provider or Azure refuses a resource without it"
CLOSES: Final = "it closes more than the stack does"
LOUD: Final = "something stops working, and says so"

HARMLESS: Final[Mapping[str, str]] = {
    r"\S+ (\S+\.)?([a-z]\w*Name|name): .*( = '(other|9999).*|ame removed)": NAME,
    r"authorization:RoleAssignment roleDefinitionId: .* = 'other.*": "no role has such an id",
    r"machinelearningservices:Datastore properties.(resourceGroup|subscriptionId): .*": (
        "a datastore finds its account by the name, which is held"
    ),
    r"authorization:RoleAssignment: .* removed": LOUD,
    r"authorization:RoleAssignment conditionVersion: .* removed": REFUSED,
    r"containerregistry:Registry encryption.keyVaultProperties.identity: .* = '9999.*": (
        "Azure refuses a client that is not one of the registry's identities, which are held"
    ),
    r"monitor:DiagnosticSetting metrics.*": "logs are what a review needs; metrics are kept anyway",
    r"monitor:ScheduledQueryRule overrideQueryTimeRange: .* removed": (
        "the alert then sees one hour, and comes sooner or not for old idle nodes"
    ),
    r"network:NetworkSecurityGroup securityRules\[\]: .* removed": CLOSES,
    r"network:NetworkSecurityGroup securityRules\[\].access: .* = 'Deny'": CLOSES,
    r"network:NetworkSecurityGroup securityRules\[\].sourceAddressPrefixes\[\]: .* removed": CLOSES,
    r"network:NetworkSecurityGroup securityRules\[\].destinationPortRanges\[\]: .* removed": CLOSES,
    r"network:NetworkSecurityGroup securityRules\[\].(access|direction|protocol|sourcePortRange|"
    r"(destination|source)AddressPrefix(es)?|destinationPortRanges?): .* removed": REFUSED,
    r"network:NetworkSecurityGroup securityRules\[\].direction: .* = '(In|Out)bound'": (
        "what it then allows is allowed in that direction too, or matches no traffic"
    ),
    r"network:NetworkSecurityGroup securityRules\[\].priority: .*": (
        "the last rule still denies the rest, whatever the order of those before it"
    ),
    r"network:NetworkSecurityGroup securityRules\[\].protocol: .* = '(\*|Tcp|other.*)'": (
        "addresses and ports are held; the services behind them answer TCP"
    ),
    r"network:NetworkSecurityGroup securityRules\[\].destinationPortRanges?(\[\])?: .*": (
        "on a subnet of the platform's own machines, a port that another rule allows as well"
    ),
    r"network:ServiceEndpointPolicy serviceEndpointPolicyDefinitions\[\].*: .* removed": CLOSES,
    r"storage:BlobServiceProperties cors(.corsRules)?: .* removed": CLOSES,
    r"storage:StorageAccount accessTier: .* removed": "Azure's default is the same tier",
    r"storage:StorageAccount encryption.services.file.*: .* removed": "Azure always encrypts files",
    r"storage:StorageAccount networkRuleSet.ipRules.*: .* removed": CLOSES,
    r"storage:StorageAccount publicNetworkAccess: .* = 'Disabled'": CLOSES,
}
