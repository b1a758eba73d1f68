"""How services encrypt their data at rest: the interface, and its default, keys of Azure's own."""

from collections.abc import Sequence

import pulumi
from pulumi_azure_native import containerregistry, storage
from pulumi_azure_native import machinelearningservices as ml


class Encryption:
    """Encryption with keys that Azure manages.

    A subclass that manages keys itself returns the inputs of each service that uses them.
    """

    ready: Sequence[pulumi.Resource] = ()
    """Resources that must exist before a service can encrypt."""

    def account(self, *, files: bool) -> storage.EncryptionArgs:
        """Return the encryption of a storage account, in addition to that of its infrastructure.

        Args:
            files: Whether the account has a file service.
        """
        return storage.EncryptionArgs(
            key_source=storage.KeySource.MICROSOFT_STORAGE,
            require_infrastructure_encryption=True,
            services=encrypted_services(files=files),
        )

    def account_identity(self) -> storage.IdentityArgs | None:
        """Return the identity with which a storage account reads its key."""
        return None

    def registry(self) -> containerregistry.EncryptionPropertyArgs | None:
        """Return the encryption of the registry."""
        return None

    def registry_identity(self) -> containerregistry.IdentityPropertiesArgs | None:
        """Return the identity with which the registry reads its key."""
        return None

    def workspace(self) -> ml.EncryptionPropertyArgs | None:
        """Return the encryption of the workspace."""
        return None

    @property
    def service_side(self) -> bool | None:
        """Whether the workspace's encrypted metadata stay in Microsoft's subscription; None if they
        are not encrypted with a key of yours.
        """
        return None


def encrypted_services(*, files: bool) -> storage.EncryptionServicesArgs:
    """Return the services of a storage account, each encrypted with the account's key."""
    service = storage.EncryptionServiceArgs(enabled=True, key_type=storage.KeyType.ACCOUNT)
    return storage.EncryptionServicesArgs(blob=service, file=service if files else None)
