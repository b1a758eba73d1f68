"""`python -m jobs traffic`: which deployment of an endpoint answers; promotion and roll-back."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Required
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.console import Console, next_command
from jobs.errors import SpecError
from jobs.extras.serving import traffic_policy
from jobs.extras.serving.bodies import BEFORE, violations
from jobs.extras.serving.deploy import change_traffic
from jobs.extras.serving.endpoints import Endpoints
from jobs.options import SelfChecked


@dataclass(frozen=True)
class TrafficOptions(SelfChecked):
    """Divide the requests of an endpoint. With --to alone, promote a deployment: it gets all
    requests. With --back, roll back to the traffic before the last change.
    """

    endpoint: Annotated[str, Required()] = ""
    """Name of the endpoint."""

    to: str | None = None
    """Deployment to give requests to."""

    percent: Annotated[int, Bounds(at_least=0, at_most=100)] = 100
    """Percentage of the requests that it gets; the others share the rest as they do now."""

    mirror: Annotated[int, Bounds(at_least=0, at_most=50)] = 0
    """Percentage of the requests that are copied to it, with --percent 0."""

    back: bool = False
    """Roll back to the traffic before the last change."""

    def problems(self) -> list[str]:
        """Return whether no change is asked for, or two."""
        if self.back != (self.to is not None):
            return []
        return ["traffic: needs either --to DEPLOYMENT or --back"]


def run(options: TrafficOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Change the traffic, and print it.

    Raises:
        UserError: There is no such endpoint or deployment, or the parts contradict each other.
    """
    options.check(())
    console, workspace = Console(as_json=as_json), connect(outputs)
    endpoints = Endpoints(workspace.manager, console)
    endpoint = endpoints.get(options.endpoint)
    broken = violations(
        outputs, endpoint.body, [deployment.body for deployment in endpoint.deployments]
    )
    if broken:
        raise SpecError(broken)
    before = endpoint.traffic
    if options.to is None:
        known = traffic_policy.parse(endpoint.tags.get(BEFORE, ""))
        divided = traffic_policy.back(known, endpoint.names)
    else:
        divided = traffic_policy.give(
            before, endpoint.names, options.to, options.percent, options.mirror
        )
    changed = change_traffic(outputs, endpoints, endpoint, divided)
    document = {
        "endpoint": endpoint.name,
        "traffic": dict(changed.traffic.live),
        "mirror": dict(changed.traffic.mirror),
        "before": str(before),
    }
    back = next_command("traffic", "--endpoint", endpoint.name, "--back", "True")
    text = f"{endpoint.name}: traffic {changed.traffic} (before: {before}); `{back}` rolls back"
    console.answer(document, text)
    return 0
