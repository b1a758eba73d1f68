"""Endpoints as a leaf."""

from typing import Final

from jobs.leaf import JobCommand, Leaf

_GROUP: Final = "use a model"

LEAF: Final = Leaf(
    commands=(
        JobCommand(
            "deploy",
            _GROUP,
            "let a registered model answer requests: deploy MODEL:VERSION --endpoint NAME",
            "jobs.serving.deploy:run",
            "jobs.serving.deploy:DeployOptions",
            data=True,
        ),
        JobCommand(
            "score",
            _GROUP,
            "ask an endpoint for the classes of images: score --endpoint NAME IMAGE...",
            "jobs.serving.score:run",
            "jobs.serving.score:ScoreOptions",
        ),
        JobCommand(
            "traffic",
            _GROUP,
            "promote a deployment of an endpoint, divide the requests, or roll back: traffic"
            " --endpoint NAME --to green",
            "jobs.serving.traffic:run",
            "jobs.serving.traffic:TrafficOptions",
        ),
        JobCommand(
            "undeploy",
            _GROUP,
            "delete an endpoint, or one deployment of it",
            "jobs.serving.undeploy:run",
            "jobs.serving.undeploy:UndeployOptions",
        ),
    ),
    costs_now="jobs.serving.listing:costs_now",
    delete="jobs.serving.endpoints:delete_all",
)
