"""The endpoints of the workspace and their cost while idle, for `status`."""

from collections.abc import Sequence
from typing import Any

from common.prices import Cost, NodePrices, Total, total
from infra.outputs import PlatformOutputs
from jobs.azure.costs import known_prices
from jobs.azure.workspace import Workspace
from jobs.console import Console, table
from jobs.extras.serving.bodies import violations
from jobs.extras.serving.endpoints import Endpoints, EndpointState
from jobs.leaf import OutputEntry


def show(workspace: Workspace, outputs: PlatformOutputs) -> OutputEntry:
    """List the endpoints with their deployments, traffic and cost of an hour, and name those that
    the platform's rules forbid.
    """
    endpoints = Endpoints(workspace.manager, Console()).all()
    prices = known_prices(workspace.manager) if endpoints else NodePrices()
    lines = ["", *endpoint_lines(endpoints, prices)] if endpoints else ["no endpoints"]
    for endpoint in endpoints:
        lines += violations(
            outputs, endpoint.body, [deployment.body for deployment in endpoint.deployments]
        )
    return OutputEntry("endpoints", endpoint_documents(endpoints, prices), tuple(lines))


def cost_of_an_hour(endpoints: Sequence[EndpointState], prices: NodePrices) -> Total:
    """Return what endpoints cost for an hour, with or without requests. Pure."""
    return total(
        Cost(3600.0 * deployment.instances, prices.find(deployment.size, "Dedicated"))
        for endpoint in endpoints
        for deployment in endpoint.deployments
    )


def endpoint_lines(endpoints: Sequence[EndpointState], prices: NodePrices) -> list[str]:
    """Describe endpoints as a table. Pure."""
    rows = [
        (
            *(endpoint.name, deployment.name if deployment else "-"),
            deployment.state if deployment else endpoint.state,
            _share(endpoint, deployment.name) if deployment else "-",
            deployment.model if deployment else "-",
            f"{deployment.instances} x {deployment.size}" if deployment else "-",
        )
        for endpoint in endpoints
        for deployment in endpoint.deployments or (None,)
    ]
    head = ("endpoint", "deployment", "state", "traffic", "model", "instances")
    hour = cost_of_an_hour(endpoints, prices)
    cost = f"endpoints cost {hour} an hour as long as they exist, even without requests"
    return [*table(head, rows).splitlines(), cost]


def endpoint_documents(
    endpoints: Sequence[EndpointState], prices: NodePrices
) -> list[dict[str, Any]]:
    """Describe endpoints for JSON output. Pure."""
    return [
        {
            "endpoint": endpoint.name,
            "state": endpoint.state,
            "address": endpoint.address,
            "traffic": dict(endpoint.traffic.live),
            "mirror": dict(endpoint.traffic.mirror),
            "hourly": dict(cost_of_an_hour([endpoint], prices).amounts) or None,
            "deployments": [
                {
                    "deployment": deployment.name,
                    "state": deployment.state,
                    "model": deployment.model,
                    "size": deployment.size,
                    "instances": deployment.instances,
                }
                for deployment in endpoint.deployments
            ],
        }
        for endpoint in endpoints
    ]


def _share(endpoint: EndpointState, name: str) -> str:
    mirrored = endpoint.traffic.mirror.get(name)
    copies = f" (copies of {mirrored} %)" if mirrored else ""
    return f"{endpoint.traffic.live.get(name, 0)} %{copies}"
