"""Checks of the settings of the jump machine: what it needs, and what would have no effect."""

from collections.abc import Iterator
from dataclasses import fields

from infra.checks import network
from infra.settings import AccessSettings, Settings

DEFAULTS = AccessSettings()


def jump_machine(settings: Settings) -> Iterator[str]:
    """Check that the machine has people who may use it, and a network that the stack declares."""
    access = settings.access
    if not access.jump_machine:
        for field in fields(AccessSettings):
            if getattr(access, field.name) != getattr(DEFAULTS, field.name):
                yield f"access.{field.name}: has no effect; set access.jump_machine to true"
        return
    if settings.network.existing is not None:
        yield (
            "access.jump_machine: cannot be combined with network.existing, in which the stack "
            "declares no subnet; ask the network's owner for a machine there"
        )
    if access.users is None:
        yield "access.users: is missing; give the object id of the Entra group that may sign in"
    if access.public_key is None:
        yield (
            "access.public_key: is missing; Azure demands one. `ssh-keygen -q -t ed25519 -N '' -f "
            "nobody` writes nobody.pub: paste it, and delete the file nobody"
        )
    if access.users is not None and access.users == access.administrators:
        yield (
            "access.administrators: is the same group as access.users, so everybody would be an "
            "administrator; give another group, or leave it out"
        )


def bastion(settings: Settings) -> Iterator[str]:
    """Check the way to the machine: the stack's own Bastion, or one of a peered network."""
    access = settings.access
    for i, text in enumerate(access.bastion_allowed_addresses):
        range_ = network.address_range(text)
        at = f"access.bastion_allowed_addresses[{i}]"
        if range_ is None:
            yield f"{at}: {text!r} is not an IPv4 address or range, such as 203.0.113.0/24"
        elif not range_.is_global:
            yield f"{at}: {text} is not a public address; use the one that the internet sees"
    if access.existing_bastion is None:
        return
    if access.bastion_allowed_addresses:
        yield (
            "access.bastion_allowed_addresses: cannot be combined with access.existing_bastion, "
            "which the stack does not change; ask its owner"
        )
    if access.jump_machine and not settings.network.jump_access:
        yield (
            "network.jump_access: is empty, so access.existing_bastion would not reach the "
            "machine; list the range of its AzureBastionSubnet"
        )
    if access.jump_machine and not settings.network.peer_with:
        yield (
            "network.peer_with: is empty, so access.existing_bastion would not reach the machine; "
            "peer with the network of the Bastion"
        )
