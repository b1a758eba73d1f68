"""All rules, and the one function that holds a stack against them."""

from collections.abc import Sequence

from infra.policies import access, exposure, governance, services
from infra.policies.rule import Posture, Rule, Violation
from infra.resources import Resource

ALL: tuple[Rule, ...] = (*exposure.RULES, *access.RULES, *services.RULES, *governance.RULES)


def check(resources: Sequence[Resource], posture: Posture) -> list[Violation]:
    """Every violation of every rule, in the rules' order."""
    return [found for rule in ALL for found in rule.check(resources, posture)]
