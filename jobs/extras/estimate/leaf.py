"""The estimate of a run as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "plan",
            "estimate and measure",
            "show what a run would take on each choice of nodes, before any is rented: plan"
            " --preset imagenet-ndv2 --deadline 2h",
            "jobs.extras.estimate.command:run",
            program=True,
            outputs="named",
        ),
        JobCommand(
            "prices",
            "estimate and measure",
            "ask Azure's public price list for the prices of GPU nodes in a region",
            "jobs.extras.estimate.prices:ask_prices",
            outputs="named",
        ),
    ),
    about_run="jobs.extras.estimate.outcome:about_run",
)
