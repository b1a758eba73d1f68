"""Facts for the security rules about the budget."""

from collections.abc import Sequence
from typing import Final

from infra.extras.budget.leaf import BudgetSettings
from infra.resources import Resource, input_at, of_kind
from infra.rules.expected import Expected, as_set
from infra.rules.facts import Facts
from infra.rules.rule import Faults, Rule
from infra.settings import Settings

BUDGET_KIND: Final = "consumption:Budget"
BUDGET_INPUTS: Final = {
    "amount": as_set(lambda settings: settings.of(BudgetSettings).amount),
    "timePeriod.startDate": as_set(lambda s: f"{s.of(BudgetSettings).start}T00:00:00Z"),
    "scope": Expected(
        lambda s: f"the resource group {s.names.resource_group}",
        lambda given, s: (
            str(given).lower().endswith(f"/resourcegroups/{s.names.resource_group}".lower())
        ),
    ),
}


def _budget(resources: Sequence[Resource], settings: Settings) -> Faults:
    own = settings.of(BudgetSettings)
    budgets = of_kind(resources, BUDGET_KIND)
    if not own.offered:
        yield from ((budget, "is declared, but budget.offered is false") for budget in budgets)
        return
    if not budgets:
        yield None, "has no budget"
    planned = {
        *(("Actual", percent) for percent in own.actual_percent),
        *(("Forecasted", percent) for percent in own.forecast_percent),
    }
    for budget in budgets:
        reached = {
            (notification.get("thresholdType"), notification.get("threshold"))
            for _, notification in (input_at(budget, "notifications") or {}).items()
            if notification.get("enabled")
            and notification.get("operator") == "GreaterThanOrEqualTo"
            and set(settings.budget.emails) <= set(notification.get("contactEmails") or ())
        }
        for kind, percent in sorted(planned - reached):
            yield budget, f"does not notify everybody at {percent:g} % of {kind.lower()} spending"


BUDGET = Rule(
    "budget-present",
    "The stack has the budget of its settings, which notifies the people in them of actual and of "
    "forecast spending.",
    "Declare one; to change amount, percentages or people, change the stack's settings.",
    {BUDGET_KIND: BUDGET_INPUTS},
    of_stack=_budget,
)

FACTS = Facts(rules=(BUDGET,))
