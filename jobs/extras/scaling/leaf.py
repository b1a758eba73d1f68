"""Measurements of images/s by number of nodes as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "scaling",
            "estimate and measure",
            "measure images/s by number of nodes with short jobs; `plan` then uses the points:"
            " scaling --nodes 1 2 4",
            "jobs.extras.scaling.command:run",
            program=True,
            data=True,
        ),
    ),
)
