"""Governance: the stack's budget, and who is notified."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import consumption

from infra.components.base import Component, StackContext


@dataclass(frozen=True)
class BudgetArgs:
    """A monthly budget of the resource group."""

    group_id: pulumi.Input[str]
    amount: float
    """Amount in the billing currency of the subscription."""
    start: str
    """First day of a month, as YYYY-MM-01."""
    emails: Sequence[str]
    actual_percent: Sequence[float]
    forecast_percent: Sequence[float]


class Budget(Component):
    """A budget that notifies people of actual and forecast spending. It stops nothing."""

    def __init__(
        self, context: StackContext, args: BudgetArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("budget", opts)
        kinds = consumption.ThresholdType
        notifications = {
            **_notifications("actual", kinds.ACTUAL, args.actual_percent, args.emails),
            **_notifications("forecast", kinds.FORECASTED, args.forecast_percent, args.emails),
        }
        consumption.Budget(
            "budget",
            budget_name=context.names.budget,
            scope=args.group_id,
            category=consumption.CategoryType.COST,
            amount=args.amount,
            time_grain=consumption.TimeGrainType.MONTHLY,
            time_period=consumption.BudgetTimePeriodArgs(start_date=f"{args.start}T00:00:00Z"),
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
