"""Decide whether a failed deployment is repeated: Azure refuses some operations for minutes only.

Pure. Pulumi continues a repeated deployment where it stopped. Retrying one resource inside a
deployment would not do: a private endpoint that Azure has begun to create exists, and azure-native
refuses to create what exists; Pulumi updates it only in the next deployment.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LIMIT_SECONDS: Final = 900
"""Seconds from a resource's first refusal after which it is not repeated any more."""
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 60.0

BUSY: Final = (
    "StorageAccountOperationInProgress",
    "StorageAccountIsNotProvisioned",
    "AnotherOperationInProgress",
    "RetryableError",
    "ReferencedResourceNotProvisioned",
    "TooManyRequests",
)
"""Codes that ask to try again: of storage (Storage resource provider, error codes), of networks
(seen with private endpoints and subnets that change), and of Resource Manager's throttling."""
UNKNOWN_PRINCIPAL: Final = ("PrincipalNotFound",)
"""A new identity is not known to every replica of the directory yet."""
LATE_ROLE: Final = (
    "AuthorizationFailed",
    "AuthorizationPermissionMismatch",
    "ForbiddenByRbac",
)
"""Refusals of an identity whose role is too new: role assignments take up to 10 minutes to have an
effect (Azure RBAC, "Troubleshoot")."""
LATE_KEY_ROLE: Final = ("KeyVaultAuthenticationFailure",)
"""A storage account's identity may not use its key in the vault yet."""
USE_ROLES: Final = "azure-native:machinelearningservices:"
"""Beginning of the types whose creation uses the roles of an identity of the stack. With any other
type such a refusal means that the deployer lacks a role, which no time cures."""

_LATE: Final = "roles assigned by this deployment have no effect yet"
_CAUSES: Final = (
    (BUSY, "another operation on it, or on what it refers to, is running"),
    (UNKNOWN_PRINCIPAL, "the directory does not know its new identity yet"),
    (LATE_KEY_ROLE, _LATE),
)
_THROTTLED: Final = re.compile(r"\b(?:Status=|RESPONSE )429\b")
_CURES: Final = (
    (
        ("MissingSubscriptionRegistration",),
        "register the resource provider that Azure names, once per subscription (az provider"
        " register --namespace NAMESPACE --wait)",
    ),
    (
        ("vCPU quota",),
        "request quota for the size (the portal's Quotas page), or choose another size or priority"
        " for the cluster, or remove it from the settings (clusters.NAME: null)",
    ),
    (
        ("StorageAccountAlreadyTaken", "AlreadyInUse", "VaultAlreadyExists"),
        "choose other names (pulumi config set name_seed TEXT)",
    ),
)
"""Texts in refusals that no time cures, with what to do."""
_STOPPED: Final = "update failed"
"""Pulumi's last message after any failure."""


@dataclass(frozen=True)
class Failure:
    """An operation on a resource that Azure refused, or another error of a deployment."""

    urn: str
    """URN of the resource in Pulumi; empty for an error of no resource."""
    message: str

    @property
    def name(self) -> str:
        """Type and name of the resource in the program."""
        return f"{self._type} {self.urn.rpartition('::')[2]}"

    @property
    def passing(self) -> str | None:
        """Why the operation may succeed later; None if no time helps."""
        for codes, why in _CAUSES:
            if self._has(codes):
                return why
        if _THROTTLED.search(self.message):
            return "Azure received too many requests"
        uses_roles = self._type.startswith(USE_ROLES)
        return _LATE if uses_roles and self._has(LATE_ROLE) else None

    @property
    def cure(self) -> str | None:
        """What to do about a refusal that no time cures; None if it is not a known one."""
        return next((cure for signs, cure in _CURES if self._has(signs)), None)

    @property
    def _type(self) -> str:
        return self.urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2]

    def _has(self, codes: Iterable[str]) -> bool:
        return bool(re.search(rf"\b(?:{'|'.join(codes)})\b", self.message))


def failures(events: Iterable[str]) -> list[Failure]:
    """Return the errors among Pulumi's events, each of which is a line of JSON.

    A line that is no event, such as the last one of a killed Pulumi, is left out.
    """
    found = []
    for line in events:
        try:
            said: Mapping[str, Any] = json.loads(line).get("diagnosticEvent") or {}
        except (ValueError, AttributeError):
            continue
        message = str(said.get("message", "")).strip()
        if said.get("severity") == "error" and message != _STOPPED:
            found.append(Failure(str(said.get("urn") or ""), message))
    return found


def waiting(failed: Sequence[Failure]) -> dict[str, str]:
    """Return why each failed resource may succeed later, by its name; empty if any may not."""
    reasons = {failure.name: failure.passing for failure in failed}
    passing = {name: why for name, why in reasons.items() if why is not None}
    return passing if len(passing) == len(reasons) else {}


def advice(failed: Sequence[Failure]) -> str:
    """Return what to do about the failures, one line for each that is known."""
    return "".join(f"\n{one.name}: {one.cure}" for one in failed if one.cure is not None)
