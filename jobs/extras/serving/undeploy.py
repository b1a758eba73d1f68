"""`python -m jobs undeploy`: delete an endpoint, or one deployment of it."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Required
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.console import Console, confirm
from jobs.errors import MissingError
from jobs.extras.serving.deploy import change_traffic
from jobs.extras.serving.endpoints import Endpoints
from jobs.extras.serving.traffic_policy import without


@dataclass(frozen=True)
class UndeployOptions:
    """Delete an endpoint with its deployments, scaling rules and alerts, so that it costs nothing.
    With --deployment, delete only one deployment, which must not answer requests.
    """

    endpoint: Annotated[str, Required()] = ""
    """Name of the endpoint."""

    deployment: str | None = None
    """Delete only this deployment."""

    yes: bool = False
    """Do not ask for confirmation."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 30.0
    """Longest time to wait for the deletion, in minutes."""

    poll_seconds: Annotated[float, Bounds(above=0)] = 5.0
    """Pause between two looks at the progress, in seconds."""


def run(options: UndeployOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Delete an endpoint or a deployment. One that does not exist is not an error.

    Raises:
        UserError: The deployment answers requests, or Azure refused the deletion.
    """
    console, workspace = Console(as_json=as_json), connect(outputs)
    endpoints = Endpoints(
        workspace.manager, console, options.wait_minutes * 60, options.poll_seconds
    )
    endpoint = endpoints.find(options.endpoint)
    if endpoint is None:
        _answer(console, options, f"endpoint {options.endpoint}: does not exist", deleted=False)
        return 0
    name = options.deployment
    if name is None:
        if not options.yes:
            count = plural(len(endpoint.deployments), "deployment")
            warning = f"endpoint {endpoint.name} will be deleted with {count}; its models stay"
            confirm(endpoint.name, warning, console)
        endpoints.delete(endpoint)
        _answer(console, options, f"endpoint {endpoint.name}: deleted", deleted=True)
        return 0
    if endpoint.deployment(name) is None:
        raise MissingError(
            f"deployment {name}: does not exist; deployments of endpoint {endpoint.name}:"
            f" {', '.join(endpoint.names) or 'none'}"
        )
    change_traffic(outputs, endpoints, endpoint, without(endpoint.traffic, name))
    endpoints.delete_deployment(endpoint.name, name)
    _answer(
        console, options, f"deployment {name} of endpoint {endpoint.name}: deleted", deleted=True
    )
    return 0


def _answer(console: Console, options: UndeployOptions, text: str, *, deleted: bool) -> None:
    document = {
        "endpoint": options.endpoint,
        "deployment": options.deployment,
        "deleted": deleted,
    }
    console.answer(document, text)
