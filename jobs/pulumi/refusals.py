"""Refusals of Azure that deployments meet: the meaning of each, and its remedy. Pure.

One table, a row for each kind of refusal. The first row that fits explains a failure.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jobs.errors import SECOND_FACTOR, sign_in_command

_LATE: Final = "roles assigned by this deployment have no effect yet"
_ML: Final = "machinelearningservices:"


@dataclass(frozen=True)
class Refusal:
    """One kind of refusal."""

    signs: str
    """Regular expression that the message contains."""
    why: str
    """Its meaning, as a clause."""
    cure: str = ""
    """What to do; empty if only time helps."""
    kinds: str = ""
    """Regular expression of the beginning of the resource's type, without the provider; the same
    words mean something else about other types."""
    passes: bool = False
    """Whether the operation may succeed some minutes later."""
    find: Callable[[str], str] | None = None
    """Returns further facts of the message, as a clause."""

    def fits(self, kind: str, message: str) -> bool:
        """Return whether a message about a resource is of this kind."""
        return bool(re.match(self.kinds, kind) and re.search(self.signs, message))

    def reason(self, message: str) -> str:
        """Return its meaning, with further facts of the message."""
        return self.why + (self.find(message) if self.find is not None else "")

    def explanation(self, message: str) -> str:
        """Return the explanation with the cure."""
        return f"{self.reason(message)}; {self.cure}"


def explain(kind: str, message: str) -> Refusal | None:
    """Return the kind of refusal of a message, by the type of its resource; None if unknown."""
    return next((refusal for refusal in TABLE if refusal.fits(kind, message)), None)


def _words(*codes: str) -> str:
    return rf"\b(?:{'|'.join(codes)})\b"


def _policy(message: str) -> str:
    """Return which policy refused which property, as far as Azure says."""
    plain = message.replace('\\"', '"')
    names = re.findall(r'"policyAssignmentDisplayName"\s*:\s*"([^"]+)"', plain)
    names += [_named(text) for text in re.findall(r'"policyAssignment"\s*:\s*(\{[^{}]*\})', plain)]
    ids = re.findall(r'"(?:policyAssignmentId|id)"\s*:\s*"([^"]*/policyAssignments/[^"]+)"', plain)
    paths = re.findall(r'"path"\s*:\s*"([^"]+)"', plain)
    named = list(dict.fromkeys(name for name in names if name))
    text = f", assignment {', '.join(named)}" if named else ""
    text += f" ({', '.join(dict.fromkeys(ids))})" if ids else ""
    return text + (f", about {', '.join(dict.fromkeys(paths))}" if paths else "")


def _named(text: str) -> str:
    try:
        said: Any = json.loads(text)
    except ValueError:
        return ""
    return str(said.get("name") or "")


def _user(message: str) -> str:
    """Return which resource uses the one that cannot be deleted, as far as Azure says."""
    used = re.search(
        r"(?:in use (?:by|with)|used by|allocated to)\D{0,40}?(/subscriptions/[^\s'\",]+)", message
    )
    return f": {used[1].rstrip('.')}" if used else ""


def _login(message: str) -> str:
    """Return the command with which the Azure CLI asks for another sign-in."""
    command = sign_in_command(message)
    return f": `{command}`" if command else ""


TABLE: Final = (
    Refusal(
        f"(?i:{SECOND_FACTOR.pattern})",
        "since October 2025 Azure demands a second factor of people for every change, and this"
        " sign-in lacks it",
        "sign in with it (`az logout`, then `az login --tenant TENANT`, with the --claims-challenge"
        " that Azure names, if any) and run the same command again; reading needs none, so checks"
        " before a change do not meet this",
        find=_login,
    ),
    Refusal(
        _words(
            "StorageAccountOperationInProgress",
            "StorageAccountIsNotProvisioned",
            "AnotherOperationInProgress",
            "RetryableError",
            "ReferencedResourceNotProvisioned",
            "StorageProvisioningStateNotSucceeded",
            "TooManyRequests",
        )
        + r"|(?i:cannot modify resource while in provisioning state)",
        "another operation on it, or on a resource that it refers to, is running",
        # Codes of storage ("Storage resource provider, error codes"), of networks (seen with
        # private endpoints and subnets that change), and of Resource Manager's throttling. Azure
        # Monitor's private link scopes say it in words.
        passes=True,
    ),
    Refusal(
        _words("PrincipalNotFound"),
        "the directory does not know its new identity yet",
        passes=True,
    ),
    Refusal(
        _words("FailedIdentityOperation"),
        "its new identity is not known everywhere yet",
        passes=True,
    ),
    Refusal(
        rf"{_words('KeyVaultAuthenticationFailure')}|Failed to access KeyId|"
        r"Verify that (?:the )?identity has",
        _LATE,
        passes=True,
    ),
    # The creation of no other type uses the roles of an identity of the stack. With any other type
    # such a refusal means that the deployer lacks a role, which no time cures.
    Refusal(
        _words("AuthorizationFailed", "AuthorizationPermissionMismatch", "ForbiddenByRbac"),
        _LATE,
        kinds=_ML,
        passes=True,
    ),
    Refusal(r"\b(?:Status=|RESPONSE )429\b", "Azure received too many requests", passes=True),
    Refusal(
        _words(
            "InUseSubnetCannotBeDeleted",
            "InUseNetworkSecurityGroupCannotBeDeleted",
            "InUseRouteTableCannotBeDeleted",
            "PublicIPAddressCannotBeDeleted",
            "NatGatewayInUseBySubnet",
            "NicInUse",
        ),
        # Azure Batch removes the network cards of a cluster after Azure Machine Learning has
        # answered that the cluster is gone.
        "another resource still uses it, as the network cards of deleted nodes do for some minutes",
        kinds="network:",
        passes=True,
        find=_user,
    ),
    Refusal(
        _words("CannotDeleteResource"),
        "resources below it that the stack does not know hold it, such as links that others have"
        " made to a private DNS zone",
        "their owners delete those that Azure names (az network private-dns link vnet delete), or"
        " delete them yourself, and run the same command again",
    ),
    Refusal(
        _words("WorkspaceNotFound"),
        "the log workspace that it refers to is not known everywhere yet",
        kinds="monitor:|insights:",
        passes=True,
    ),
    Refusal(
        r"(?i)soft-deleted workspace exists",
        "a workspace of this name was deleted and can still be recovered, which is how `pulumi"
        " destroy` leaves it",
        "purge it in the portal (Azure Machine Learning, Recently deleted), or choose other names"
        " (pulumi config set name_seed TEXT); `make teardown` purges it itself",
        kinds=_ML,
    ),
    # Refusals that a first deployment may meet and no simulator can know; the open points of
    # docs/deploy-the-platform.md list the assumptions.
    Refusal(
        r"(?i)missing dependent resources in workspace json",
        "Azure demands Application Insights of each new workspace",
        "remove `application_insights: false` of monitoring from the stack's file",
        kinds=f"{_ML}Workspace",
    ),
    Refusal(
        r"(?i)missing the following rules",
        "the security rules of its subnet lack traffic that Azure Machine Learning demands",
        "set network.storage_over_smb to true if Azure names port 445 of Storage; add other traffic"
        " to infra/catalog/network_rules.py and to the rule in infra/rules/network.py, or"
        " with network.existing ask the owner of the network",
        kinds=_ML,
    ),
    # The firewall of a storage account refuses with this code; a missing role has another one.
    Refusal(
        _words("AuthorizationFailure"),
        "the firewall of a storage account refused Azure Machine Learning, which creates its"
        " containers and validates its datastores from outside of the network",
        "set storage.public_access to denied, which lets Azure's trusted services in and no one"
        " else, and run the same command again",
        kinds=_ML,
    ),
    Refusal(
        r"(?i)\b(?:SEM0\d+|SemanticError|failed to resolve (?:table|scalar))|query.{0,60}not valid",
        "Azure tried the query of the alert, and its tables come with the first events",
        "run the same command again after the first job",
        kinds="monitor:ScheduledQueryRule",
    ),
    Refusal(
        r"(?i)\bcategor(?:y|ies)\b.{0,80}\bnot supported\b",
        "the service has no group of logs of this name",
        "list its logs (az monitor diagnostic-settings categories list --resource ID), and name"
        " them in infra/composition/observability.py and infra/rules/governance.py",
        kinds="monitor:DiagnosticSetting",
    ),
    Refusal(
        r"(?i)cannot create already existing resource|data sinks? .{0,200}\balready used\b",
        "a diagnostic setting of an earlier deployment is still there, as Azure keeps the settings"
        " of deleted resources",
        "delete the setting that the message names (az monitor diagnostic-settings delete"
        " --resource ID --name NAME), and run the same command again",
        kinds="monitor:DiagnosticSetting",
    ),
    Refusal(
        _words("ResourceNotFound", "ParentResourceNotFound", "ResourceGroupNotFound", "NotFound"),
        "the Network Watcher of the region does not exist yet",
        "run the same command again, as Azure makes it with the first network; if it is still"
        " missing: az network watcher configure --resource-group NetworkWatcherRG --locations"
        " REGION --enabled true",
        kinds="network:FlowLog",
    ),
    Refusal(
        r"(?i)cannot create already existing resource",
        "Azure has created it although its answer was lost or the deployment was killed, so Pulumi"
        " does not know it",
        "delete it, as nothing uses it yet (az resource delete --ids ID), or take it over (pulumi"
        " import TYPE NAME ID), and run the same command again",
    ),
    Refusal(
        _words("RequestDisallowedByPolicy"),
        "a policy of the company forbids it",
        "for a tag, set it under tags, or under ignored_tags if the policy adds it; otherwise"
        " change the setting that the property comes from, or ask for an exemption (az policy"
        " exemption create)",
        find=_policy,
    ),
    Refusal(
        r"(?i)roleAssignments/\S+ does not exist|\b(?:RoleAssignmentNotFound)\b",
        "the owner of the subscription has not assigned this role yet (roles: existing)",
        "give the owner the script that `make roles STACK=NAME ARGS=--script` prints, and run the"
        " same command again afterwards",
    ),
    Refusal(
        _words("AuthorizationFailed"),
        "you may not assign roles there",
        "let a user deploy who is also Role Based Access Control Administrator, or set roles to"
        " existing and let the owner of the subscription assign them",
        kinds="authorization:RoleAssignment",
    ),
    Refusal(
        _words("RoleAssignmentExists"),
        "the same principal has this role there already, by an assignment of another name, such as"
        " that of another stack or one by hand",
        "delete the other one (az role assignment list --scope SCOPE, az role assignment delete"
        " --ids ID), or leave the group or account to the stack that has it, and run the same"
        " command again",
        kinds="authorization:RoleAssignment",
    ),
    Refusal(
        _words("RoleAssignmentUpdateNotPermitted"),
        "the assignment belongs to an identity that was deleted and made again",
        "delete the assignment (az role assignment delete --ids ID) and run the same command again",
        kinds="authorization:RoleAssignment",
    ),
    Refusal(
        _words("ResourceNotFound", "ContainerNotFound"),
        "Azure Machine Learning has not made this container yet",
        "run the same command again in some minutes, or after the first job",
        kinds="authorization:RoleAssignment",
    ),
    Refusal(
        _words(
            *("ResourceNotFound", "ParentResourceNotFound", "InvalidResourceReference"),
            "PrivateDnsZoneNotFound",
        ),
        "a private DNS zone that it refers to does not exist",
        "the owner of network.existing_dns_zones creates the zone that Azure names (az network"
        " private-dns zone create)",
        kinds="network:PrivateDnsZoneGroup|privatedns:",
    ),
    Refusal(
        r"(?i)overlapping namespaces?|"
        + _words("VirtualNetworkLinkConflict", "ConflictingVirtualNetworkLink"),
        "the network is already linked to another private DNS zone of this name, such as that of a"
        " hub, and Azure allows one",
        "use that zone (network.private_dns: hub with network.existing_dns_zones, or policy), or"
        " let its owner remove the link",
        kinds="network:|privatedns:",
    ),
    Refusal(
        _words("InvalidResourceReference"),
        "a resource that it refers to does not exist",
        "restore what Azure names, or run `up` with --refresh True if the stack has made it, so"
        " that it is created again",
        kinds="network:",
    ),
    Refusal(
        r"\bSecurityRule(?:Parameter)?\w*(?:Invalid|Unsupported)\w*|(?i:service tag\b.{0,80}"
        r"\b(?:invalid|not (?:valid|supported|found))|\binvalid service tag)",
        "the region or the cloud does not know a service tag or range of its rules",
        "set the tag that Azure names to its other spelling (network.vault_service_tag), or correct"
        " the ranges under network and allowed_addresses",
        kinds="network:",
    ),
    Refusal(
        _words("SubnetIsFull"),
        "its subnet has no room for the addresses that it takes",
        "its owner enlarges it or frees addresses, or name another subnet: for private endpoints in"
        " network.existing.endpoints_subnet",
    ),
    Refusal(
        _words("LinkedAuthorizationFailed"),
        "you may not use a resource of others that it refers to",
        "ask its owner for a role there that has the action which Azure names, for a subnet such as"
        " Network Contributor on that subnet",
    ),
    Refusal(
        _words("AuthorizationFailed"),
        "you lack a role there",
        "ask for a role that has the action which Azure names; docs/deploy-the-platform.md lists"
        " those that a deployment needs",
    ),
    Refusal(
        _words("ScopeLocked"),
        "a lock of the group or the subscription forbids it",
        "ask its owner to remove the lock that Azure names: clusters cannot scale below it either",
    ),
    Refusal(
        r"(?i)offer type|"
        + _words("BudgetNotSupported", "UnsupportedOffer", "SubscriptionTypeNotSupported"),
        "Cost Management has no budgets for this subscription's offer",
        "set budget.offered to false, and watch the costs elsewhere",
        kinds="consumption:",
    ),
    Refusal(
        r"(?i)EncryptionAtHost.{0,80}not enabled",
        "the subscription lacks the feature EncryptionAtHost of Microsoft.Compute",
        "its owner registers it once (az feature register --namespace Microsoft.Compute --name"
        " EncryptionAtHost)",
    ),
    Refusal(
        _words("MissingSubscriptionRegistration"),
        "the subscription has not registered the resource provider",
        "register the resource provider that Azure names, once per subscription (az provider"
        " register --namespace NAMESPACE --wait)",
    ),
    Refusal(
        r"(?i:\b(?:vCPU|cores?) quota\b)|"
        + _words("ClusterCoreQuotaReached", "ClusterMinNodesExceedCoreQuota"),
        "the quota of its size is too small",
        "request quota for the size (the portal's Quotas page), or choose another size or priority"
        " for the cluster, or remove it from the settings (clusters.NAME: null)",
    ),
    Refusal(
        _words("SkuNotAvailable", "VMSizeNotSupported", "VmSizeNotAvailable", "InvalidVmSize")
        + r"|(?i:\bsize\b.{0,80}\bnot (?:available|offered|supported)\b)",
        "the region does not offer its size to this subscription",
        "choose another size (az ml compute list-sizes --location REGION), or before the first"
        " deployment another region",
    ),
    Refusal(
        _words("AllocationFailed", "ZonalAllocationFailed", "OverconstrainedAllocationRequest"),
        "the region has no free machines of its size now",
        "run the same command again later, or choose another size",
    ),
    Refusal(
        _words("LocationNotAvailableForResourceGroup", "LocationNotAvailableForResourceType"),
        "the region is misspelled, or does not offer this",
        "correct location (az account list-locations -o table)",
    ),
    Refusal(
        _words("StorageAccountAlreadyTaken", "AlreadyInUse", "VaultAlreadyExists"),
        "another resource in Azure has this name",
        "choose other names (pulumi config set name_seed TEXT)",
    ),
    # Last, as a more exact row may know what a conflict or an error of the server means.
    Refusal(
        _words("Conflict") + r"|\b(?:Status=|RESPONSE )409\b",
        "another operation on the workspace, or on its children, is running",
        kinds=_ML,
        passes=True,
    ),
    Refusal(
        r"\b(?:Status=|RESPONSE )50[0234]\b|(?i:context deadline exceeded|\bi/o timeout\b)|"
        + _words("InternalServerError", "ServiceUnavailable", "GatewayTimeout", "BadGateway"),
        "Azure's service did not answer in time, or failed",
        passes=True,
    ),
)
