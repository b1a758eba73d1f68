"""Customer-managed keys as a leaf: their settings and the checks of these, name and identity."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Pattern
from infra.leaf import Check, DataKeys, Leaf, Needed
from infra.naming import Limit, Name
from infra.setting_types import IdentityId, VaultId
from infra.settings import Settings

KeyUri = Annotated[
    str, Pattern(r"https://[^/\s]+/keys/[^/\s]+/[^/\s]+", "https://VAULT/keys/NAME/VERSION")
]
IDENTITY: Final = "encryption"
"""Role of the identity that services use the key with."""
VAULT_VERSION: Final = "2026-02-01"
KEY: Final = Name(
    "encryption key", lambda names: f"{names.base}-cmk", Limit(r"[a-zA-Z0-9-]+", 1, 127)
)


@dataclass(frozen=True)
class EncryptionSettings:
    """Keys for encryption at rest."""

    customer_managed_keys: bool = False
    """Encrypt workspace, registry and storage accounts with a key of the vault. Cannot be disabled
    later."""

    service_side: bool = False
    """Leave the workspace's encrypted metadata in Microsoft's subscription. Otherwise the workspace
    keeps them in paid resources of a second resource group in yours. Cannot be changed later."""

    key_uri: KeyUri | None = None
    """Existing key in `key_vault` or `vault.existing`; None declares one in the stack's vault."""

    key_vault: VaultId | None = None
    """Existing vault of the key, such as the company's, if it is not that of the workspace. Its
    owner must let Azure's trusted services in. None is the vault of the workspace."""

    identity: IdentityId | None = None
    """Existing identity to use the key with, which its owner has given the role Key Vault Crypto
    Service Encryption User on the vault; None declares one."""


def _encryption(settings: Settings) -> DataKeys | None:
    own = settings.of(EncryptionSettings)
    if not own.customer_managed_keys:
        return None
    declares = own.identity is None
    return DataKeys(
        "infra.extras.customer_keys.component:encryption",
        (IDENTITY,) if declares else (),
        {"encryption.key_vault": own.key_vault} if declares else {},
    )


def _needs(settings: Settings) -> tuple[Needed, ...]:
    own = settings.of(EncryptionSettings)
    vault = own.key_vault or settings.vault.existing
    found = []
    if own.identity is not None:
        found.append(Needed("key", "encryption.identity", own.identity, "2023-01-31"))
    if own.key_uri is not None and vault is not None:
        _, name, version = own.key_uri.removeprefix("https://").replace("/keys/", "/").split("/")
        found += [
            Needed(
                "key",
                "encryption.key_vault" if own.key_vault else "vault.existing",
                vault,
                VAULT_VERSION,
                {"properties.enablePurgeProtection": (True,)},
                "a key for encryption needs a vault with purge protection (az keyvault update"
                " --enable-purge-protection true)",
            ),
            Needed(
                "key",
                "encryption.key_uri",
                f"{vault}/keys/{name}/versions/{version}",
                VAULT_VERSION,
                {"properties.attributes.enabled": (True,), "properties.kty": ("RSA", "RSA-HSM")},
                "name an enabled RSA key of that vault, with its version",
            ),
        ]
    return tuple(found)


def _keys(settings: Settings) -> Iterator[str]:
    encryption, vault = settings.of(EncryptionSettings), settings.vault
    holder = encryption.key_vault or vault.existing
    if encryption.key_uri is not None and holder is None:
        yield (
            "encryption.key_vault: is missing; give the id of the vault that holds "
            "encryption.key_uri"
        )
    for name in ("key_uri", "key_vault", "identity"):
        if getattr(encryption, name) is not None and not encryption.customer_managed_keys:
            yield f"encryption.{name}: has no effect; set encryption.customer_managed_keys to true"
    where = "encryption.key_vault" if encryption.key_vault else "vault.existing"
    if encryption.customer_managed_keys and holder is not None and encryption.key_uri is None:
        yield (
            f"encryption.key_uri: is missing; the stack adds no key to {where}, so give the URI of "
            "a key in it"
        )
    if encryption.key_uri is not None and holder is not None:
        key_vault = encryption.key_uri.removeprefix("https://").partition(".")[0]
        name = holder.rpartition("/")[2]
        if key_vault.lower() != name.lower():
            yield (
                f"encryption.key_uri: is a key in vault {key_vault!r}, but {where} is {name!r}; "
                "use one vault in both"
            )
    group = settings.resource_group.existing
    if encryption.customer_managed_keys and group is not None and not encryption.service_side:
        yield (
            "encryption.service_side: must be true with resource_group.existing, because the "
            "workspace would make a second resource group for its encrypted metadata"
        )
    if encryption.service_side and not encryption.customer_managed_keys:
        yield "encryption.service_side: has no effect; set encryption.customer_managed_keys to true"
    if encryption.customer_managed_keys and not (holder or vault.purge_protection):
        yield (
            "vault.purge_protection: must be true with encryption.customer_managed_keys; if the "
            "key is purged, the data can never be read again"
        )


LEAF: Final = Leaf(
    groups={"encryption": EncryptionSettings},
    checks=(Check(("encryption", "vault", "resource_group"), _keys),),
    names=(KEY,),
    encryption=_encryption,
    needs=_needs,
    facts="infra.extras.customer_keys.security:FACTS",
    types={"keyvault:Key": "Microsoft.KeyVault/vaults/{vaultName}/keys/{keyName}"},
)
