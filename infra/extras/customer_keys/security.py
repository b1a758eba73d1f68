"""Facts for the security rules about customer-managed keys."""

from collections.abc import Callable
from typing import Final

from infra.catalog import resource_ids
from infra.extras.customer_keys.leaf import IDENTITY, EncryptionSettings
from infra.resources import REGISTRY, STORAGE, WORKSPACE
from infra.rules.facts import Facts
from infra.rules.rule import ANYTHING, Required, by_name, only_id
from infra.settings import Settings

KEY_KIND: Final = "keyvault:Key"
VAULTS: Final = ("vault", "key-vault")
"""The vault of the workspace, and that of an existing key."""


def _own(settings: Settings) -> bool:
    return settings.of(EncryptionSettings).customer_managed_keys


def _if_own(required: Required) -> Callable[[Settings], Required]:
    """Expect it with keys of the stack, and nothing with those of Azure."""
    return lambda settings: required if _own(settings) else None


def _key_vault(settings: Settings) -> str:
    return resource_ids.name(settings.of(EncryptionSettings).key_vault or "")


def _vault(settings: Settings) -> Required:
    vault = _key_vault(settings)
    return _if_own(by_name(vault) if vault else ANYTHING)(settings)


def _identity(settings: Settings) -> str:
    existing = settings.of(EncryptionSettings).identity
    return resource_ids.name(existing) if existing else settings.names.identity(IDENTITY)


def _uses_key(settings: Settings) -> Required:
    return by_name(_identity(settings)) if _own(settings) else None


def _identities(settings: Settings) -> Required:
    return only_id(_identity(settings)) if _own(settings) else None


FACTS = Facts(
    tables={
        "encrypted": {
            STORAGE: {
                "encryption.keySource": (
                    lambda s: "Microsoft.Keyvault" if _own(s) else "Microsoft.Storage"
                ),
                "encryption.encryptionIdentity.encryptionUserAssignedIdentity": _uses_key,
                "encryption.keyVaultProperties.keyName": _if_own(ANYTHING),
                "encryption.keyVaultProperties.keyVaultUri": _if_own(ANYTHING),
                "identity.type": _if_own("UserAssigned"),
                "identity.userAssignedIdentities": _identities,
            },
            REGISTRY: {
                "encryption.status": _if_own("enabled"),
                "encryption.keyVaultProperties.identity": _if_own(ANYTHING),
                "encryption.keyVaultProperties.keyIdentifier": _if_own(ANYTHING),
                "identity.type": _if_own("UserAssigned"),
                "identity.userAssignedIdentities": _identities,
            },
            WORKSPACE: {
                "encryption.status": _if_own("Enabled"),
                "encryption.identity.userAssignedIdentity": _uses_key,
                "encryption.keyVaultProperties.keyIdentifier": _if_own(ANYTHING),
                "encryption.keyVaultProperties.keyVaultArmId": _vault,
                "enableServiceSideCMKEncryption": (
                    lambda s: s.of(EncryptionSettings).service_side or None
                ),
            },
        },
    },
    counts=lambda settings: {
        KEY_KIND: int(_own(settings) and settings.of(EncryptionSettings).key_uri is None)
    },
    references={
        WORKSPACE: {
            "encryption.keyVaultProperties.keyVaultArmId?": VAULTS,
            "encryption.keyVaultProperties.keyIdentifier?": VAULTS,
        },
        REGISTRY: {"encryption.keyVaultProperties.keyIdentifier?": VAULTS},
        STORAGE: {"encryption.keyVaultProperties.keyVaultUri?": VAULTS},
        KEY_KIND: {"vaultName": ("vault",)},
    },
    services=lambda settings: {"key-vault": ("Microsoft.KeyVault/vaults", _key_vault(settings))},
    grants=lambda _: {
        IDENTITY: {(vault, "Key Vault Crypto Service Encryption User"): None for vault in VAULTS}
    },
)
