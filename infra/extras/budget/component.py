"""The budget of the resource group."""

from collections.abc import Sequence

import pulumi
from pulumi_azure_native import consumption

from infra.components.base import Component, StackContext
from infra.composition.parts import Declared, Platform
from infra.extras.budget.leaf import BUDGET, BudgetSettings


def declare(platform: Platform) -> Declared | None:
    """Declare the budget of the stack."""
    settings = platform.settings
    own = settings.of(BudgetSettings)
    if own.offered:
        Budget(platform.context, own, settings.budget.emails, platform.group_id)
    return None


class Budget(Component):
    """A budget that notifies people of actual and forecast spending. It stops nothing."""

    def __init__(
        self,
        context: StackContext,
        settings: BudgetSettings,
        emails: Sequence[str],
        group_id: pulumi.Input[str],
    ) -> None:
        super().__init__("budget")
        kinds = consumption.ThresholdType
        notifications = {
            **_notifications("actual", kinds.ACTUAL, settings.actual_percent, emails),
            **_notifications("forecast", kinds.FORECASTED, settings.forecast_percent, emails),
        }
        consumption.Budget(
            "budget",
            budget_name=BUDGET(context.names),
            scope=group_id,
            category=consumption.CategoryType.COST,
            amount=settings.amount,
            time_grain=consumption.TimeGrainType.MONTHLY,
            time_period=consumption.BudgetTimePeriodArgs(start_date=f"{settings.start}T00:00:00Z"),
            notifications=notifications,
            opts=self.child_options(),
        )
        self.register_outputs({})


def _notifications(
    label: str,
    kind: consumption.ThresholdType,
    percents: Sequence[float],
    emails: Sequence[str],
) -> dict[str, consumption.NotificationArgs]:
    return {
        f"{label}-{percent:g}-percent": consumption.NotificationArgs(
            enabled=True,
            operator=consumption.OperatorType.GREATER_THAN_OR_EQUAL_TO,
            threshold=percent,
            threshold_type=kind,
            contact_emails=list(emails),
        )
        for percent in percents
    }
