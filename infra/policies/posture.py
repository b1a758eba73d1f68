"""What the rules must know about a stack, from its settings."""

from infra.naming import Names
from infra.policies.rule import Posture
from infra.settings import Settings

PRODUCTION = "prod"
"""Stack that is held to production's rules whatever its settings say."""

TAGS = frozenset({"owner", "cost-center"})


def posture(settings: Settings) -> Posture:
    """The posture that a stack of these settings must have."""
    names = Names(settings.prefix, settings.stack, settings.location, settings.name_seed)
    publishers = settings.people.publishers
    return Posture(
        profile=settings.profile,
        production=settings.protect or settings.stack == PRODUCTION,
        tags=TAGS,
        publishers=frozenset({publishers} if publishers else ()),
        preparation=names.identity("preparation"),
        addresses=frozenset(settings.allowed_addresses),
    )
