"""The first day on a subscription as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "commission",
            "platform",
            "acceptance-test a new platform on Azure, the cheapest step first, and write a report",
            "jobs.commission.command:run",
            "jobs.commission.options:CommissionOptions",
            program=True,
            data=True,
        ),
    ),
)
