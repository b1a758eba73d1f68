"""Endpoints and deployments of models as the bodies of requests. Pure.

A managed online endpoint is an address; its deployments answer. Fields as in the REST definitions
of Azure Machine Learning, `OnlineEndpoints` and `OnlineDeployments`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.outputs import PlatformOutputs, Serving
from jobs.errors import SpecError
from jobs.extras.serving.traffic_policy import Traffic

NAME: Final = r"[a-z](?:[a-z0-9-]{1,30}[a-z0-9])"
"""Names of endpoints and deployments: 3 to 32 characters ("Manage and increase quotas", limits of
online endpoints)."""
SIZE: Final = "Standard_D4as_v4"
"""The smallest CPU size that Azure lists for managed online endpoints and that new subscriptions
may deploy; `infra.catalog.vm_sizes` has the sources."""
PORT: Final = 5001
"""Port of the inference server in the image."""
BEFORE: Final = "traffic_before"
"""Tag of an endpoint with its traffic before the last change."""
REQUEST_SECONDS: Final = 10
"""Longest time for a request at one instance; Azure allows 180 seconds."""


@dataclass(frozen=True)
class Deployment:
    """One deployment of an endpoint."""

    endpoint: str
    name: str
    model: str
    """NAME:VERSION of a registered model."""
    environment: str
    """NAME:VERSION of the registered image."""
    size: str
    cores: int
    """Cores of the size: as many processes answer."""
    instances: int

    def __post_init__(self) -> None:
        problems = name_problems("--endpoint", self.endpoint) + name_problems("--to", self.name)
        if problems:
            raise SpecError(problems)


def name_problems(option: str, name: str) -> list[str]:
    """Return the problems of the name of an endpoint or a deployment."""
    if re.fullmatch(NAME, name):
        return []
    return [
        f"{option}: {name!r} must have 3 to 32 lower-case letters, digits and hyphens, the first a"
        " letter, the last none of '-'"
    ]


def serving_of(outputs: PlatformOutputs) -> Serving:
    """Return the outputs of the stack for endpoints.

    Raises:
        SpecError: The stack is not set up for them.
    """
    if outputs.serving is None:
        raise SpecError(
            [
                f"stack {outputs.stack}: has no identity for endpoints; set `serving: true` in its"
                " configuration and deploy it again (make up)"
            ]
        )
    return outputs.serving


def is_private(outputs: PlatformOutputs) -> bool:
    """Whether endpoints of the stack must be closed to public networks."""
    return outputs.access.profile == "private"


def endpoint_body(
    outputs: PlatformOutputs, traffic: Traffic, tags: Mapping[str, str]
) -> dict[str, Any]:
    """Build the body that creates an endpoint or changes its traffic.

    Callers need an Entra token, as there are no keys. In a private stack the endpoint is reachable
    through the workspace's private endpoint only.
    """
    return {
        "location": outputs.region,
        "kind": "Managed",
        "identity": {
            "type": "UserAssigned",
            "userAssignedIdentities": {serving_of(outputs).identity: {}},
        },
        "tags": {"stack": outputs.stack, **tags},
        "properties": {
            "authMode": "AADToken",
            "publicNetworkAccess": "Disabled" if is_private(outputs) else "Enabled",
            "traffic": dict(traffic.live),
            "mirrorTraffic": dict(traffic.mirror),
        },
    }


def deployment_body(
    outputs: PlatformOutputs, workspace_id: str, deployment: Deployment
) -> dict[str, Any]:
    """Build the body that creates a deployment.

    Probes and times: TensorFlow's import and the first image can take minutes on a busy instance,
    so readiness has five minutes, and liveness begins after that. A long request must not be
    mistaken for a dead worker, so liveness fails only after three minutes.

    In a private stack the deployment has no way out but private endpoints of its own to the
    workspace, its default storage account and its registry. This cannot be changed afterwards.
    """
    model, version = deployment.model.split(":")
    image, image_version = deployment.environment.split(":")
    return {
        "location": outputs.region,
        "kind": "Managed",
        "sku": {"name": "Default", "capacity": deployment.instances},
        "tags": {"stack": outputs.stack, "model": deployment.model},
        "properties": {
            "endpointComputeType": "Managed",
            "model": f"{workspace_id}/models/{model}/versions/{version}",
            "environmentId": f"{workspace_id}/environments/{image}/versions/{image_version}",
            "instanceType": deployment.size,
            "egressPublicNetworkAccess": "Disabled" if is_private(outputs) else "Enabled",
            "appInsightsEnabled": False,
            "environmentVariables": {
                "SCORE_MODEL_NAME": model,
                "SCORE_MODEL_VERSION": version,
                "WEB_CONCURRENCY": str(deployment.cores),
            },
            "livenessProbe": _probe("PT5M", "PT30S", failures=6),
            "readinessProbe": _probe("PT10S", "PT10S", failures=30),
            "requestSettings": {
                "requestTimeout": f"PT{REQUEST_SECONDS}S",
                "maxConcurrentRequestsPerInstance": deployment.cores,
                "maxQueueWait": "PT0.5S",
            },
            "scaleSettings": {"scaleType": "Default"},
        },
    }


def inference_config() -> dict[str, Any]:
    """Return where the server in our image answers Azure's probes and requests.

    A probe gets the page of `GET /score`, which a worker answers once it has loaded the model.
    Azure refuses the server's own route for probes: a path must contain a letter or a digit.
    """
    route = {"path": "/score", "port": PORT}
    return {"livenessRoute": route, "readinessRoute": route, "scoringRoute": route}


def violations(
    outputs: PlatformOutputs, endpoint: Mapping[str, Any], deployments: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return how an endpoint breaks the security rules of the stack."""
    properties, name = endpoint.get("properties") or {}, endpoint.get("name") or "?"
    problems = []
    mode = str(properties.get("authMode"))
    if mode.lower() != "aadtoken":
        problems.append(f"endpoint {name}: accepts {mode}; only Entra tokens (AADToken) may be")
    identity = endpoint.get("identity") or {}
    held = [key.lower() for key in identity.get("userAssignedIdentities") or {}]
    own = outputs.serving.identity.lower() if outputs.serving else None
    if own and held != [own]:
        problems.append(f"endpoint {name}: acts as {held or 'no identity'}, not as {own} alone")
    if not is_private(outputs):
        return problems
    if str(properties.get("publicNetworkAccess")).lower() != "disabled":
        problems.append(f"endpoint {name}: is public in a private stack")
    problems += [
        f"deployment {deployment.get('name') or '?'}: may connect to public networks in a"
        " private stack"
        for deployment in deployments
        if str((deployment.get("properties") or {}).get("egressPublicNetworkAccess")).lower()
        != "disabled"
    ]
    return problems


def _probe(initial: str, period: str, *, failures: int) -> dict[str, Any]:
    return {
        "initialDelay": initial,
        "period": period,
        "timeout": "PT5S",
        "successThreshold": 1,
        "failureThreshold": failures,
    }
