"""The budget as a leaf: its settings and their checks, and its name."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Bounds, Pattern
from infra.leaf import Beginning, Check, Leaf
from infra.naming import Limit, Name
from infra.settings import Settings

MOST_NOTIFICATIONS: Final = 5
"""Notifications per budget (Azure Cost Management)."""
MOST_EMAILS: Final = 50
"""Addresses per notification (Azure Resource Manager, Microsoft.Consumption/budgets)."""
BUDGET: Final = Name("budget", lambda names: f"{names.base}-budget", Limit(r"[\w-]+", 1, 63))


@dataclass(frozen=True)
class BudgetSettings:
    """A monthly budget. It notifies people; it stops nothing."""

    amount: Annotated[float, Bounds(1)]
    """Amount in the billing currency of the subscription."""

    start: Annotated[
        str,
        Pattern(
            r"20\d\d-(0[1-9]|1[0-2])-01",
            'the first day of a month, such as "2026-12-01", in quotes',
        ),
    ]
    """First month of the budget. Azure accepts the current month or up to 12 months ahead, and no
    past month, so set it once and leave it."""

    offered: bool = True
    """Whether Cost Management offers budgets for the subscription's type, as it does for Enterprise
    Agreements; false declares none."""

    actual_percent: tuple[Annotated[float, Bounds(0.01, 1000)], ...] = (80.0, 100.0)
    """Percentages of the amount at which actual spending is reported."""

    forecast_percent: tuple[Annotated[float, Bounds(0.01, 1000)], ...] = (100.0,)
    """Percentages of the amount at which forecast spending for the month is reported."""


def _percentages(settings: Settings) -> Iterator[str]:
    budget = settings.of(BudgetSettings)
    actual, forecast = budget.actual_percent, budget.forecast_percent
    for name, shares in (("actual_percent", actual), ("forecast_percent", forecast)):
        if not shares:
            yield f"budget.{name}: is empty; give at least one percentage, such as 100"
        if len(set(shares)) < len(shares):
            yield f"budget.{name}: {list(shares)} contains a percentage twice"
    count = len(actual) + len(forecast)
    if count > MOST_NOTIFICATIONS:
        yield (
            f"budget.actual_percent: {count} percentages together with budget.forecast_percent, "
            f"but a budget accepts at most {MOST_NOTIFICATIONS}"
        )


def _emails(settings: Settings) -> Iterator[str]:
    if (count := len(settings.budget.emails)) > MOST_EMAILS:
        yield (
            f"budget.emails: {count} addresses, but a notification of a budget accepts at most "
            f"{MOST_EMAILS}; use the address of a group"
        )


def _needs(settings: Settings) -> tuple[Beginning, ...]:
    own = settings.of(BudgetSettings)
    if not own.offered:
        return ()
    return (Beginning("budget", "budget.start", own.start, "azure-native:consumption:Budget"),)


LEAF: Final = Leaf(
    groups={"budget": BudgetSettings},
    checks=(
        Check(("budget.actual_percent", "budget.forecast_percent"), _percentages),
        Check(("budget.emails",), _emails),
    ),
    names=(BUDGET,),
    needs=_needs,
    declare="infra.extras.budget.component:declare",
    facts="infra.extras.budget.security:FACTS",
    types={"consumption:Budget": "{scope}/providers/Microsoft.Consumption/budgets/{budgetName}"},
)
