"""Facts for the security rules about the budget."""

from collections.abc import Iterator
from typing import Final

from infra.extras.budget.leaf import BudgetSettings
from infra.resources import Resource, input_at
from infra.rules.facts import Facts
from infra.rules.rule import Expected, Rule
from infra.settings import Settings

BUDGET_KIND: Final = "consumption:Budget"


def _scope(settings: Settings) -> Expected:
    group = settings.names.resource_group
    end = f"/resourcegroups/{group}".lower()
    return Expected(f"the resource group {group}", lambda id_: str(id_).lower().endswith(end))


def _notifies(budget: Resource, settings: Settings) -> Iterator[str]:
    if budget.kind != BUDGET_KIND:
        return
    own = settings.of(BudgetSettings)
    planned = {
        *(("Actual", percent) for percent in own.actual_percent),
        *(("Forecasted", percent) for percent in own.forecast_percent),
    }
    reached = {
        (notification.get("thresholdType"), notification.get("threshold"))
        for _, notification in (input_at(budget, "notifications") or {}).items()
        if notification.get("enabled")
        and notification.get("operator") == "GreaterThanOrEqualTo"
        and set(settings.budget.emails) <= set(notification.get("contactEmails") or ())
    }
    for kind, percent in sorted(planned - reached):
        yield f"does not notify everybody at {percent:g} % of {kind.lower()} spending"


BUDGET = Rule(
    "budget-present",
    "The budget is that of the stack's settings, and notifies the people in them of actual and of "
    "forecast spending.",
    "Restore it; to change amount, percentages or people, change the stack's settings.",
    {
        BUDGET_KIND: {
            "amount": lambda s: s.of(BudgetSettings).amount,
            "timePeriod.startDate": lambda s: f"{s.of(BudgetSettings).start}T00:00:00Z",
            "scope": _scope,
        }
    },
    of_resource=_notifies,
)

FACTS = Facts(rules=(BUDGET,), counts=lambda s: {BUDGET_KIND: int(s.of(BudgetSettings).offered)})
