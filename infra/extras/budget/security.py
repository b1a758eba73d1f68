"""Facts for the security rules about the budget."""

from collections.abc import Sequence
from typing import Final

from infra.extras.budget.leaf import BudgetSettings
from infra.resources import Resource, input_at, of_kind
from infra.rules.expected import Expected
from infra.rules.facts import Facts
from infra.rules.rule import Faults, Rule
from infra.settings import Settings

BUDGET_KIND: Final = "consumption:Budget"


def _scope(settings: Settings) -> Expected:
    group = settings.names.resource_group
    end = f"/resourcegroups/{group}".lower()
    return Expected(f"the resource group {group}", lambda id_: str(id_).lower().endswith(end))


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
    {
        BUDGET_KIND: {
            "amount": lambda s: s.of(BudgetSettings).amount,
            "timePeriod.startDate": lambda s: f"{s.of(BudgetSettings).start}T00:00:00Z",
            "scope": _scope,
        }
    },
    of_stack=_budget,
)

FACTS = Facts(rules=(BUDGET,))
