"""How Azure answers about each kind of resource, from recorded calls (docs/tested.md)."""

from dataclasses import replace
from typing import Final

from rehearsal.control_plane.answers import Answer, Answers, AnswersByKind

_ML: Final = "Microsoft.MachineLearningServices"
_NETWORK: Final = "Microsoft.Network"
_STORAGE: Final = "Microsoft.Storage/storageAccounts"
_INSIGHTS: Final = "Microsoft.Insights"
_REGISTRY: Final = "Microsoft.ContainerRegistry/registries"
_IDENTITY: Final = "Microsoft.ManagedIdentity/userAssignedIdentities"
_OK: Final = Answer(200)


def _region(provider: str, place: str) -> str:
    """Return the path of a place of operations in a region of the subscription."""
    return f"/subscriptions/{{subscription}}/providers/{provider}/locations/{{location}}/{place}"


def _network(
    pause: int = 10, *, ready: bool = False, deletion: int = 10, hidden: tuple[str, ...] = ()
) -> Answers:
    """Return the answers of a network resource.

    Args:
        pause: Retry-After of its creation.
        ready: Whether it is ready at once.
        deletion: Retry-After of its deletion.
        hidden: Properties that it gets later.
    """
    created = Answer(201, polled=True) if ready else Answer(
        201, "Updating", polled=True, pause=pause, hidden=hidden
    )  # fmt: skip
    return Answers(
        created,
        Answer(200, polled=True),
        Answer(202, polled=True, location="result", pause=deletion, body=""),
        state_at=_region(_NETWORK, "operations/{operation}"),
        result_at=_region(_NETWORK, "operationResults/{operation}"),
    )


_SLOW: Final = Answer(202, "Creating", polled=True, location="result", body="")
_DNS: Final = Answer(202, "Updating", polled=True, location="result", pause=30, body="empty")
_DNS_ZONE: Final = Answers(
    _DNS,
    _DNS,
    replace(_DNS, body=""),
    state_at=(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network"
        "/privateDnsOperationStatuses/{operation}"
    ),
    result_at=(
        "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Network"
        "/privateDnsOperationResults/{operation}"
    ),
)
_SERVED: Final = Answers(
    Answer(201, "Creating", polled=True, location="self"),
    Answer(200, "Updating", polled=True),
    Answer(202, polled=True, location="result", body=""),
    state_at=_region(_ML, "mfeOperationsStatus/oeidp:{operation}"),
    result_at=_region(_ML, "mfeOperationResults/{operation}"),
)
_VERSION: Final = Answers(Answer(201, location="self"), Answer(201, location="self"))

ANSWERS: Final[AnswersByKind] = {
    "Microsoft.Resources/resourceGroups": Answers(
        deleted=Answer(202, location="result", pause=15, body=""),
        result_at="/subscriptions/{subscription}/operationresults/{operation}",
    ),
    f"{_ML}/workspaces": Answers(
        _SLOW,
        Answer(202, "Updating", polled=True, location="result", body=""),
        Answer(202, polled=True, location="result", body=""),
        state_at=_region(_ML, "workspaceOperationsStatus/{operation}?type=async"),
        result_at=_region(_ML, "workspaceOperationsStatus/{operation}?type=location"),
        result_has_body=False,
    ),
    f"{_ML}/workspaces/computes": Answers(
        Answer(201, "Creating", polled=True),
        Answer(200, "Updating", polled=True),
        Answer(202, polled=True, body=""),
        state_at=_region(_ML, "computeOperationsStatus/{operation}?service=new"),
    ),
    f"{_ML}/workspaces/onlineEndpoints": _SERVED,
    f"{_ML}/workspaces/onlineEndpoints/deployments": _SERVED,
    f"{_ML}/workspaces/environments/versions": _VERSION,
    f"{_ML}/workspaces/data/versions": _VERSION,
    _STORAGE: Answers(
        Answer(202, "Creating", location="result", pause=17, body=""),
        result_at=_region("Microsoft.Storage", "asyncoperations/{operation}?monitor=true"),
    ),
    f"{_STORAGE}/blobServices": Answers(_OK),
    f"{_STORAGE}/fileServices": Answers(_OK),
    f"{_STORAGE}/managementPolicies": Answers(
        _OK,
        missing=("ManagementPolicyNotFound", "No ManagementPolicy found for account {above}"),
        bare=True,
    ),
    f"{_STORAGE}/blobServices/containers": Answers(
        missing=("ContainerOperationFailure", "The specified container does not exist.")
    ),
    _REGISTRY: Answers(
        Answer(201, "Creating", polled=True),
        Answer(201, "Updating", polled=True),
        Answer(202, "Deleting", location="result", pause=10),
        state_at="{id}/operationStatuses/registries-{operation}",
        result_at=_region("Microsoft.ContainerRegistry", "operationResults/registries-{operation}"),
    ),
    f"{_REGISTRY}/replications": Answers(
        Answer(201, "Creating", polled=True, pause=10),
        deleted=Answer(202, location="result", pause=10, body=""),
        state_at="{id}/operationStatuses/replications-{operation}",
        result_at=_region(
            "Microsoft.ContainerRegistry", "operationResults/replications-{operation}"
        ),
    ),
    "Microsoft.KeyVault/vaults": Answers(Answer(200, "RegisteringDns")),
    "Microsoft.KeyVault/vaults/keys": Answers(_OK),
    "Microsoft.KeyVault/locations/deletedVaults": Answers(
        # The answer to the action `purge`, which ends in a deletion.
        deleted=Answer(202, location="result", pause=5, body=""),
        missing=(
            "DeletedVaultNotFound",
            "The specified deleted vault '{name}' does not exist. Ensure that the vault was indeed"
            " deleted and that it is in recoverable state.",
        ),
        result_at=_region("Microsoft.KeyVault", "operationResults/{operation}"),
    ),
    _IDENTITY: Answers(Answer(201, location="self")),
    f"{_IDENTITY}/federatedIdentityCredentials": Answers(
        Answer(201, location="self"), missing=("NotFound", "Resource '{id}' was not found.")
    ),
    "Microsoft.Authorization/roleAssignments": Answers(
        deleted=_OK,
        missing=("RoleAssignmentNotFound", "The role assignment '{name}' is not found."),
    ),
    "Microsoft.Authorization/roleDefinitions": Answers(
        # A definition that is changed is answered like a new one; clients refuse another status.
        replaced=Answer(201),
        deleted=_OK,
        missing=(
            "RoleDefinitionDoesNotExist",
            "The specified role definition with ID '{name}' does not exist.",
        ),
    ),
    f"{_INSIGHTS}/components": Answers(_OK),
    f"{_INSIGHTS}/diagnosticSettings": Answers(
        _OK, missing=("ResourceNotFound", "The diagnostic setting '{name}' doesn't exist.")
    ),
    f"{_INSIGHTS}/metricAlerts": Answers(_OK),
    "Microsoft.OperationalInsights/workspaces": Answers(
        Answer(201, "Creating", polled=True, location="self", pause=20),
        Answer(200, "Updating", polled=True, location="result", pause=20),
        state_at=_region("Microsoft.OperationalInsights", "operationstatuses/{operation}"),
        result_at="{id}/operationresults/{operation}",
    ),
    f"{_NETWORK}/virtualNetworks": _network(3),
    f"{_NETWORK}/virtualNetworks/subnets": replace(_network(3), bare=True),
    f"{_NETWORK}/networkSecurityGroups": _network(1, deletion=1),
    f"{_NETWORK}/publicIPAddresses": _network(1, hidden=("ipAddress",)),
    f"{_NETWORK}/networkInterfaces": _network(ready=True, deletion=4),
    f"{_NETWORK}/bastionHosts": _network(hidden=("dnsName",)),
    f"{_NETWORK}/natGateways": _network(),
    f"{_NETWORK}/privateEndpoints": _network(),
    f"{_NETWORK}/privateEndpoints/privateDnsZoneGroups": _network(),
    f"{_NETWORK}/privateDnsZones": _DNS_ZONE,
    f"{_NETWORK}/privateDnsZones/virtualNetworkLinks": _DNS_ZONE,
}
"""Answers by kind; the other kinds are answered when they are done."""
