"""Facts for the security rules about customer-managed keys."""

from typing import Final

from infra.catalog import resource_ids
from infra.extras.customer_keys.leaf import IDENTITY, EncryptionSettings
from infra.resources import REGISTRY, STORAGE, WORKSPACE
from infra.rules.expected import (
    ANYTHING,
    ON,
    Expected,
    as_set,
    exactly,
    only_if,
)
from infra.rules.facts import Facts
from infra.settings import Settings

KEY_KIND: Final = "keyvault:Key"
VAULTS: Final = ("vault", "key-vault")
"""The vault of the workspace, and that of an existing key."""


def _key_source(settings: Settings) -> str:
    own = settings.of(EncryptionSettings).customer_managed_keys
    return "Microsoft.Keyvault" if own else "Microsoft.Storage"


def _own(settings: Settings) -> bool:
    return settings.of(EncryptionSettings).customer_managed_keys


def _key_vault(settings: Settings) -> str:
    return resource_ids.name(settings.of(EncryptionSettings).key_vault or "")


KEY_VAULT = Expected(
    lambda s: f"the vault {_key_vault(s) or 'of the stack'}",
    lambda given, s: bool(given) and _key_vault(s) in {"", resource_ids.name(str(given))},
    when=_own,
)


def _identity(settings: Settings) -> str:
    existing = settings.of(EncryptionSettings).identity
    return resource_ids.name(existing) if existing else settings.names.identity(IDENTITY)


ENCRYPTION_IDENTITY = Expected(
    lambda s: f"the identity {_identity(s)}",
    lambda given, s: resource_ids.name(str(given)) == _identity(s),
    when=_own,
)

USER_ASSIGNED = only_if(_own, exactly("UserAssigned"))

ENCRYPTION_IDENTITIES = Expected(
    lambda s: f"the identity {_identity(s)} alone",
    lambda given, s: [resource_ids.name(id_) for id_ in given] == [_identity(s)],
    when=_own,
)
"""A list of ids, or a mapping by id, as the service has it."""


FACTS = Facts(
    tables={
        "encrypted": {
            STORAGE: {
                "encryption.keySource": as_set(_key_source),
                "encryption.encryptionIdentity.encryptionUserAssignedIdentity": (
                    ENCRYPTION_IDENTITY
                ),
                "encryption.keyVaultProperties.keyName": only_if(_own, ANYTHING),
                "encryption.keyVaultProperties.keyVaultUri": only_if(_own, ANYTHING),
                "identity.type": USER_ASSIGNED,
                "identity.userAssignedIdentities": ENCRYPTION_IDENTITIES,
            },
            REGISTRY: {
                "encryption.status": only_if(_own, exactly("enabled")),
                "encryption.keyVaultProperties.identity": only_if(_own, ANYTHING),
                "encryption.keyVaultProperties.keyIdentifier": only_if(_own, ANYTHING),
                "identity.type": USER_ASSIGNED,
                "identity.userAssignedIdentities": ENCRYPTION_IDENTITIES,
            },
            WORKSPACE: {
                "encryption.status": only_if(_own, exactly("Enabled")),
                "encryption.identity.userAssignedIdentity": ENCRYPTION_IDENTITY,
                "encryption.keyVaultProperties.keyIdentifier": only_if(_own, ANYTHING),
                "encryption.keyVaultProperties.keyVaultArmId": KEY_VAULT,
                "enableServiceSideCMKEncryption": only_if(
                    lambda s: s.of(EncryptionSettings).service_side, ON
                ),
            },
        },
    },
    counts=lambda settings: {
        KEY_KIND: int(_own(settings) and settings.of(EncryptionSettings).key_uri is None)
    },
    references={
        WORKSPACE: {
            "encryption.keyVaultProperties.keyVaultArmId": VAULTS,
            "encryption.keyVaultProperties.keyIdentifier": VAULTS,
        },
        REGISTRY: {"encryption.keyVaultProperties.keyIdentifier": VAULTS},
        STORAGE: {"encryption.keyVaultProperties.keyVaultUri": VAULTS},
        KEY_KIND: {"vaultName": ("vault",)},
    },
    services=lambda settings: {"key-vault": ("Microsoft.KeyVault/vaults", _key_vault(settings))},
    grants={
        IDENTITY: {(vault, "Key Vault Crypto Service Encryption User"): None for vault in VAULTS}
    },
)
