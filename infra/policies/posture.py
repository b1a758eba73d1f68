"""What the rules must know about a stack, from its settings."""

from infra.contradictions import REQUIRED_TAGS
from infra.policies.rule import Posture
from infra.settings import Settings

PRODUCTION = "prod"
"""Stack that is held to production's rules whatever its settings say."""


def posture(settings: Settings) -> Posture:
    """The posture that a stack of these settings must have."""
    publishers = settings.people.publishers
    return Posture(
        profile=settings.profile,
        production=settings.protect or settings.stack == PRODUCTION,
        tags=frozenset(REQUIRED_TAGS),
        publishers=frozenset({publishers} if publishers else ()),
        preparation=settings.names.identity("preparation"),
        addresses=frozenset(settings.allowed_addresses),
    )
