"""What the security rules know of customer-managed keys."""

from collections.abc import Iterator
from typing import Final

from infra.catalog import resource_ids, roles
from infra.customer_keys.leaf import IDENTITY, EncryptionSettings
from infra.policies.expected import Expected, as_set, exactly, one_of, optional, violated
from infra.policies.facts import Facts
from infra.policies.rule import ResourceRule
from infra.resources import REGISTRY, STORAGE, WORKSPACE, Resource
from infra.settings import Settings

KEY_KIND: Final = "keyvault:Key"


def _key_source(settings: Settings) -> str:
    own = settings.of(EncryptionSettings).customer_managed_keys
    return "Microsoft.Keyvault" if own else "Microsoft.Storage"


ENCRYPTION_IDENTITY = Expected(
    lambda s: f"the identity {s.names.identity('encryption')}",
    lambda given, s: resource_ids.name(str(given)) == s.names.identity(IDENTITY),
    required=False,
)

ENCRYPTION_IDENTITIES = Expected(
    lambda s: f"the identity {s.names.identity('encryption')} alone",
    lambda given, s: [resource_ids.name(id_) for id_ in given] == [s.names.identity(IDENTITY)],
    required=False,
)
"""A list of ids, or a mapping by id, as the service has it."""


def _encrypted_as_set(resource: Resource, settings: Settings) -> Iterator[str]:
    """Yield a fault for a registry or workspace that lacks the customer-managed key."""
    if (
        resource.kind in {REGISTRY, WORKSPACE}
        and settings.of(EncryptionSettings).customer_managed_keys
    ):
        yield from violated(resource, "encryption.status", exactly("Enabled"), settings)


CUSTOMER_KEY = ResourceRule(
    "customer-managed-key",
    "Registry and workspace are encrypted with the customer-managed key of the settings, if any.",
    "Set it when the resource is created: Azure cannot add it later.",
    _encrypted_as_set,
)

FACTS = Facts(
    rules=(CUSTOMER_KEY,),
    tables={
        "encrypted": {
            STORAGE: {
                "encryption.keySource": as_set(_key_source),
                "encryption.encryptionIdentity.encryptionUserAssignedIdentity": (
                    ENCRYPTION_IDENTITY
                ),
                "identity.userAssignedIdentities": ENCRYPTION_IDENTITIES,
            },
            REGISTRY: {"identity.userAssignedIdentities": ENCRYPTION_IDENTITIES},
            WORKSPACE: {"encryption.identity.userAssignedIdentity": ENCRYPTION_IDENTITY},
            KEY_KIND: {
                "properties.kty": one_of("RSA", "RSA-HSM"),
                "properties.keySize": one_of(3072, 4096),
                "properties.keyOps[]": one_of("wrapKey", "unwrapKey"),
                "properties.attributes.exportable": optional(exactly(value=False)),
                "properties.rotationPolicy.lifetimeActions[].action.type": exactly("rotate"),
            },
        },
    },
    reviewed={KEY_KIND: "keyName properties.rotationPolicy vaultName"},
    references={
        WORKSPACE: {
            "encryption.keyVaultProperties.keyVaultArmId": ("vault",),
            "encryption.keyVaultProperties.keyIdentifier": ("vault",),
        },
        REGISTRY: {"encryption.keyVaultProperties.keyIdentifier": ("vault",)},
        STORAGE: {"encryption.keyVaultProperties.keyVaultUri": ("vault",)},
    },
    grants={IDENTITY: {("vault", roles.KEY_VAULT_CRYPTO_SERVICE_ENCRYPTION_USER): None}},
)
