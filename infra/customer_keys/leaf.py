"""Customer-managed keys as a leaf: their settings and the checks of these, name and identity."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Pattern
from infra.leaf import Check, Leaf
from infra.naming import Limit, Name
from infra.settings import Settings

KeyUri = Annotated[
    str, Pattern(r"https://[^/\s]+/keys/[^/\s]+/[^/\s]+", "https://VAULT/keys/NAME/VERSION")
]
IDENTITY: Final = "encryption"
"""Role of the identity that services use the key with."""
KEY: Final = Name(
    "encryption key", lambda names: f"{names.base}-cmk", Limit(r"[a-zA-Z0-9-]+", 1, 127)
)


@dataclass(frozen=True)
class EncryptionSettings:
    """Keys for encryption at rest."""

    customer_managed_keys: bool = False
    """Encrypt workspace, registry and storage accounts with a key of the vault. Cannot be disabled
    later, and the workspace then keeps paid resources in a second resource group."""

    key_uri: KeyUri | None = None
    """Existing key in `vault.existing`; None declares one."""


def _keys(settings: Settings) -> Iterator[str]:
    encryption, vault = settings.of(EncryptionSettings), settings.vault
    if encryption.key_uri is not None and vault.existing is None:
        yield "vault.existing: is missing; give the id of the vault that holds encryption.key_uri"
    if encryption.key_uri is not None and not encryption.customer_managed_keys:
        yield "encryption.key_uri: has no effect; set encryption.customer_managed_keys to true"
    if (
        encryption.customer_managed_keys
        and vault.existing is not None
        and encryption.key_uri is None
    ):
        yield (
            "encryption.key_uri: is missing; the stack adds no key to vault.existing, so give the "
            "URI of a key in it"
        )
    if encryption.key_uri is not None and vault.existing is not None:
        key_vault = encryption.key_uri.removeprefix("https://").partition(".")[0]
        name = vault.existing.rpartition("/")[2]
        if key_vault.lower() != name.lower():
            yield (
                f"encryption.key_uri: is a key in vault {key_vault!r}, but vault.existing is "
                f"{name!r}; use one vault in both"
            )
    if encryption.customer_managed_keys and not (vault.existing or vault.purge_protection):
        yield (
            "vault.purge_protection: must be true with encryption.customer_managed_keys; if the "
            "key is purged, the data can never be read again"
        )


LEAF: Final = Leaf(
    groups={"encryption": EncryptionSettings},
    checks=(Check(("encryption", "vault"), _keys),),
    names=(KEY,),
    identities=lambda settings: (
        (IDENTITY,) if settings.of(EncryptionSettings).customer_managed_keys else ()
    ),
    encryption="infra.customer_keys.component:encryption",
    facts="infra.customer_keys.security:FACTS",
    types={"keyvault:Key": "Microsoft.KeyVault/vaults/{vaultName}/keys/{keyName}"},
)
