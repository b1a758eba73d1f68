"""The steps of the workflows in `.github/`, and their state and identities, as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

_GROUP: Final = "platform"

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "drift",
            _GROUP,
            "show which resources were changed outside of Pulumi",
            "jobs.extras.pipelines.drift:run",
            outputs="made",
        ),
        JobCommand(
            "backend",
            _GROUP,
            "set up a storage account for Pulumi's state, and identities for GitHub's workflows",
            "jobs.extras.pipelines.backend:run",
            outputs="made",
        ),
        JobCommand(
            "comment",
            _GROUP,
            "write a preview as a comment on a pull request, as a step of a workflow",
            "jobs.extras.pipelines.comment:run",
            outputs="made",
        ),
    ),
)
