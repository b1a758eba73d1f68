"""Endpoints as a leaf."""

from typing import Final

from jobs.leaf import Billed, JobCommand, Leaf

_GROUP: Final = "use a model"

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "deploy",
            _GROUP,
            "let a registered model answer requests: deploy MODEL:VERSION --endpoint NAME",
            "jobs.extras.serving.deploy:run",
            data=True,
        ),
        JobCommand(
            "score",
            _GROUP,
            "ask an endpoint for the classes of images: score --endpoint NAME IMAGE...",
            "jobs.extras.serving.score:run",
        ),
        JobCommand(
            "traffic",
            _GROUP,
            "promote a deployment of an endpoint, divide the requests, or roll back: traffic"
            " --endpoint NAME --to green",
            "jobs.extras.serving.traffic:run",
        ),
        JobCommand(
            "undeploy",
            _GROUP,
            "delete an endpoint, or one deployment of it",
            "jobs.extras.serving.undeploy:run",
        ),
    ),
    billed=Billed("jobs.extras.serving.listing:show", "jobs.extras.serving.endpoints:delete_all"),
)
