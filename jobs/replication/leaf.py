"""Copies of data sets in other stacks as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "replicate",
            "data",
            "copy a data set to another stack, such as one in another region, and register it"
            " there: replicate NAME:VERSION --to-stack dev-west",
            "jobs.replication.command:run",
            "jobs.replication.command:ReplicateOptions",
            data=True,
        ),
    ),
)
