"""All rules, and the one function that holds a stack against them."""

from collections.abc import Sequence

from infra.policies import access_rules, exposure_rules, governance_rules, service_rules
from infra.policies.rule import Posture, Rule, Violation
from infra.resources import Resource

ALL: tuple[Rule, ...] = (
    *exposure_rules.RULES,
    *access_rules.RULES,
    *service_rules.RULES,
    *governance_rules.RULES,
)


def check(resources: Sequence[Resource], posture: Posture) -> list[Violation]:
    """Every violation of every rule, in the rules' order."""
    return [found for rule in ALL for found in rule.check(resources, posture)]
