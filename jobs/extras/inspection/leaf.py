"""The commands that look into a running job as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

_GROUP: Final = "look at runs"

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "stacks",
            _GROUP,
            "print where the ranks of a running job are, and which wait for data or for others",
            "jobs.extras.inspection.stacks:run",
            data=True,
        ),
        JobCommand(
            "profile",
            _GROUP,
            "record some steps of a running job, and download the profile",
            "jobs.extras.inspection.profile:run",
            data=True,
        ),
        JobCommand(
            "debug",
            _GROUP,
            "show how to log in to the nodes of a job that was submitted with --debug",
            "jobs.extras.inspection.debug:run",
        ),
    ),
)
