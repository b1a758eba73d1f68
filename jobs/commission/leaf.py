"""The first day on a subscription as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "commission",
            "platform",
            "run what was never tried on Azure, ascending by cost, and write a page of facts",
            "jobs.commission.command:run",
            "jobs.commission.options:CommissionOptions",
            program=True,
            data=True,
        ),
    ),
)
