"""Lookup of the supported types by azure-native's tokens without a version."""

from collections.abc import Mapping
from typing import Final

from rehearsal.pulumi.provider.types import (
    compute,
    machine_learning,
    network,
    operations,
    storage,
)
from rehearsal.pulumi.provider.types.resource_type import ResourceType

PACKAGE: Final = "azure-native"

TYPES: Final[Mapping[str, ResourceType]] = {
    **compute.TYPES,
    **machine_learning.TYPES,
    **network.TYPES,
    **operations.TYPES,
    **storage.TYPES,
}
"""Types by `module:Kind`."""


def find(token: str) -> ResourceType | None:
    """Return a type by its token, such as `azure-native:network/v20240501:NatGateway`."""
    package, _, rest = token.partition(":")
    module, _, kind = rest.partition(":")
    if package != PACKAGE:
        return None
    return TYPES.get(f"{module.split('/')[0]}:{kind}")
