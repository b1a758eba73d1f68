"""`python -m jobs deploy`: a registered model answers requests at an endpoint.

Every step first looks for its result, so the same command continues after an interruption. No
request reaches a new deployment before it has answered the smoke test.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from common.annotations import Bounds, Positional, Required
from common.errors import INTERRUPTED, UserError
from common.image_files import find_images
from common.prices import money
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.assets import images as environments
from jobs.assets import models
from jobs.azure.clusters import read_sizes
from jobs.azure.costs import known_prices
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console, next_command
from jobs.errors import RequestError, SpecError
from jobs.extras.evidence import registered
from jobs.extras.evidence.leaf import EvidenceCheckOptions
from jobs.extras.serving import monitoring, score, traffic_policy
from jobs.extras.serving.bodies import (
    BEFORE,
    SIZE,
    Deployment,
    deployment_body,
    endpoint_body,
    inference_config,
    serving_of,
    violations,
)
from jobs.extras.serving.endpoints import Endpoints, EndpointState
from jobs.extras.serving.traffic_policy import Traffic
from jobs.options import ASSET, SelfChecked
from jobs.spec.build_context import build_context
from jobs.spec.from_options import REPOSITORY

PIXEL: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel, for a smoke test without images."""


@dataclass(frozen=True)
class DeployOptions(SelfChecked, EvidenceCheckOptions):
    """Let a registered model answer requests at an endpoint, which is created if there is none. The
    deployment gets requests only after it has answered a smoke test. An endpoint costs money as
    long as it exists, even without requests. In a private stack it has no public address, and a
    deployment reaches only the workspace, its registry and its default storage account, by a flag
    (egressPublicNetworkAccess) that Azure cannot change afterwards.
    """

    model: Annotated[str, Positional("MODEL:VERSION"), Required("`register` prints it")] = ""
    """Registered model; `register` prints its name and version."""

    endpoint: Annotated[str, Required()] = ""
    """Name of the endpoint; must be unique in the region."""

    to: str = "blue"
    """Name of the deployment. A new version needs another name than the one that answers now."""

    traffic: Annotated[int | None, Bounds(at_least=0, at_most=100)] = None
    """Percentage of the requests that it gets after the smoke test; None is 100 for the first
    deployment of an endpoint, and otherwise its present share, which is 0 for a new one."""

    mirror: Annotated[int, Bounds(at_least=0, at_most=50)] = 0
    """Percentage of the requests that are copied to it; callers get the answers of the others."""

    instances: Annotated[int | None, Bounds(at_least=1)] = None
    """Number of instances, or with --max-instances their minimum. Microsoft recommends 3 for
    availability. None keeps those that the deployment has; a new one has 1."""

    max_instances: Annotated[int | None, Bounds(at_least=1)] = None
    """Maximum number of instances, which are added while the processors are busy; None does not add
    any, and keeps the rules of an earlier command."""

    size: str = SIZE
    """VM size of an instance. During an update Azure needs 20 % more instances of quota."""

    images: tuple[str, ...] = ()
    """Image files or folders for the smoke test, separated by spaces, which the deployment must
    answer. None sends one pixel."""

    expected: str | None = None
    """File with the output of `ml-trainer predict --json True` for held-out images: the
    deployment must answer these images with the same classes."""

    alert_ms: Annotated[int, Bounds(at_least=1)] = 2000
    """Alert if one request in a hundred takes longer, in milliseconds."""

    wait_minutes: Annotated[float, Bounds(above=0)] = 90.0
    """Longest time to wait for Azure; the first deployment builds the image."""

    poll_seconds: Annotated[float, Bounds(above=0)] = 5.0
    """Pause between two looks at the progress, in seconds."""

    def problems(self) -> list[str]:
        """Return why the name of the model or the numbers of instances are invalid."""
        problems = []
        if not re.fullmatch(ASSET, self.model):
            problems.append(f"MODEL: {self.model!r} must be NAME:VERSION of a registered model")
        least = self.instances or 1
        if self.max_instances is not None and self.max_instances < least:
            problems.append(f"--max-instances: is less than --instances {least}")
        return problems


def run(options: DeployOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Deploy a model, test it, and give it traffic.

    Raises:
        UserError: The stack or the model is not fit for it, Azure failed, or the smoke test did.
    """
    options.check(())
    console, workspace = Console(as_json=as_json), connect(outputs)
    serving_of(outputs)
    deployment = _described(options, workspace)
    if proven := registered.check(options, workspace, options.model):
        console.say(proven)
    tested = _test_images(options)
    endpoints = Endpoints(
        workspace.manager, console, options.wait_minutes * 60, options.poll_seconds
    )
    try:
        endpoint = _deploy(options, outputs, workspace, deployment, endpoints, console)
        _test(workspace, endpoint, deployment, tested, console)
        endpoint = _direct(options, outputs, endpoints, endpoint, deployment.name)
    except KeyboardInterrupt:
        console.note(
            "interrupted; Azure continues with its operation, and costs may arise. The same"
            f" command continues; `{next_command('undeploy', '--endpoint', options.endpoint)}`"
            " deletes the endpoint"
        )
        return INTERRUPTED
    document = {
        "endpoint": endpoint.name,
        "deployment": deployment.name,
        "model": deployment.model,
        "address": endpoint.address,
        "traffic": dict(endpoint.traffic.live),
        "mirror": dict(endpoint.traffic.mirror),
        "tested_images": len(tested),
    }
    console.answer(document, _words(workspace, endpoint, deployment))
    return 0


def conflicts(
    endpoint: EndpointState | None, wanted: Deployment, body: Mapping[str, Any], most: int
) -> bool:
    """Check whether a deployment must be created or changed. Pure.

    Args:
        endpoint: The endpoint; None if it does not exist.
        wanted: Deployment to create.
        body: Its request body.
        most: Number of instances that it may have at most.

    Returns:
        Whether it must; False if it exists as wanted.

    Raises:
        SpecError: A deployment of this name answers requests with something else.
    """
    existing = endpoint.deployment(wanted.name) if endpoint else None
    if endpoint is None or existing is None:
        return True
    same = (existing.model, existing.environment, existing.size) == (
        *(wanted.model, wanted.environment, wanted.size),
    )
    egress = "egressPublicNetworkAccess"
    same = same and existing.body["properties"].get(egress) == body["properties"][egress]
    if same:
        return existing.state != "Succeeded" or not wanted.instances <= existing.instances <= most
    part = endpoint.traffic.live.get(wanted.name, 0)
    if part:
        other = "green" if wanted.name == "blue" else "blue"
        raise SpecError(
            [
                f"--to: {wanted.name} answers {part} % of the requests with {existing.model} on"
                f" {existing.size}; deploy under another name, such as --to {other}"
            ]
        )
    return True


def _described(options: DeployOptions, workspace: Workspace) -> Deployment:
    """Check the model and the size.

    Raises:
        UserError: There is no such model or size, or the deployment could not read the model.
    """
    least = options.instances or 1
    manager = workspace.manager
    deployment = Deployment(options.endpoint, options.to, options.model, "", options.size, 1, least)
    name, version = options.model.split(":")
    models.locate(manager, workspace.storage.datastores.results, name, version)
    sizes = read_sizes(manager.get(f"{manager.location_id}/vmSizes"))
    size = sizes.get(options.size.lower())
    if size is None or not size.cores:
        raise SpecError([f"--size: the region has no {options.size}"])
    return replace(deployment, cores=size.cores)


def _test_images(options: DeployOptions) -> dict[str, tuple[bytes, int | None]]:
    """Read the images of the smoke test, with the class that each must have."""
    expected: dict[Path, int] = {}
    if options.expected is not None:
        expected = score.read_expected(Path(options.expected))
    images = find_images(options.images).paths
    classes = {path: expected.get(path) for path in [*expected, *images]}
    if not classes:
        return {"a pixel": (PIXEL, None)}
    try:
        return {str(path): (path.read_bytes(), class_id) for path, class_id in classes.items()}
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror})") from error


def _deploy(
    options: DeployOptions,
    outputs: PlatformOutputs,
    workspace: Workspace,
    deployment: Deployment,
    endpoints: Endpoints,
    console: Console,
) -> EndpointState:
    """Create the endpoint, the deployment and what belongs to them."""
    manager = workspace.manager
    endpoint = endpoints.find(options.endpoint)
    if endpoint is not None:
        bodies = [deployed.body for deployed in endpoint.deployments]
        broken = violations(outputs, endpoint.body, bodies)
        if broken:
            raise SpecError([*broken, "delete it, or choose another --endpoint"])
    context = build_context(REPOSITORY, "serving")
    existing = endpoint.deployment(deployment.name) if endpoint else None
    if options.instances is None and existing is not None:
        instances = min(existing.instances, options.max_instances or existing.instances)
        deployment = replace(deployment, instances=max(instances, 1))
    deployment = replace(deployment, environment=context.reference)
    body = deployment_body(outputs, manager.workspace_id, deployment)
    most = options.max_instances or deployment.instances
    needed = conflicts(endpoint, deployment, body, most)
    environments.ensure(manager, workspace.storage, context, inference_config())
    if endpoint is None:
        console.say(f"creating endpoint {options.endpoint}")
        endpoint = endpoints.put(options.endpoint, endpoint_body(outputs, Traffic(), {}))
    target = f"{endpoint.id}/deployments/{deployment.name}"
    if needed:
        console.say(
            f"deploying {deployment.model} as {deployment.name} on"
            f" {plural(deployment.instances, 'instance')} of {deployment.size}; this takes Azure"
            " some minutes, and up to an hour if it builds the image"
        )
        endpoints.put_deployment(endpoint.name, deployment.name, body)
    if options.max_instances is not None:
        path = monitoring.autoscale_path(manager.group_id, endpoint.name, deployment.name)
        scaling = monitoring.autoscale_body(
            outputs, target, path.rpartition("/")[2], options.instances or 1, most
        )
        manager.put(path, scaling, monitoring.AUTOSCALE)
    logs = monitoring.diagnostics_path(endpoint.id)
    manager.put(logs, monitoring.diagnostics_body(outputs), monitoring.DIAGNOSTICS)
    paths = monitoring.alert_paths(manager.group_id, endpoint.name)
    for kind, alert in monitoring.alert_bodies(outputs, endpoint.id, options.alert_ms).items():
        manager.put(paths[kind], alert, monitoring.ALERTS)
    return endpoints.get(endpoint.name)


def _test(
    workspace: Workspace,
    endpoint: EndpointState,
    deployment: Deployment,
    tested: Mapping[str, tuple[bytes, int | None]],
    console: Console,
) -> None:
    """Ask the deployment for the classes of images.

    Raises:
        UserError: It does not answer, or with other classes than expected.
    """
    images = [(name, image) for name, (image, _) in tested.items()]
    failed = f"the smoke test of {deployment.name} failed, so it gets no requests:"
    wrong, right = [], 0
    try:
        for scored in score.score(workspace.requests, endpoint, images, deployment.name):
            expected = tested[scored.image][1]
            right += expected is not None and scored.classes[0]["class_id"] == expected
            if expected not in (None, scored.classes[0]["class_id"]):
                wrong.append(f"{scored.text}, but class {expected} was expected")
    except RequestError as error:
        raise type(error)(f"{failed}\n{error}", error.status) from error
    if wrong:
        shown = "\n".join(f"  {line}" for line in wrong[:10])
        raise UserError(f"{failed} {plural(len(wrong), 'image')} of {len(images)} differ\n{shown}")
    checked = f", {right} with the expected class" if right else ""
    console.say(f"smoke test: {deployment.name} answered {plural(len(images), 'image')}{checked}")


def _direct(
    options: DeployOptions,
    outputs: PlatformOutputs,
    endpoints: Endpoints,
    endpoint: EndpointState,
    name: str,
) -> EndpointState:
    """Give the deployment its traffic."""
    percent = options.traffic
    if percent is None:
        percent = endpoint.traffic.live.get(name, 0) if endpoint.traffic.live else 100
    if percent == endpoint.traffic.live.get(name, 0) and not options.mirror:
        return endpoint
    divided = traffic_policy.give(endpoint.traffic, endpoint.names, name, percent, options.mirror)
    return change_traffic(outputs, endpoints, endpoint, divided)


def change_traffic(
    outputs: PlatformOutputs, endpoints: Endpoints, endpoint: EndpointState, divided: Traffic
) -> EndpointState:
    """Change the traffic of an endpoint, and remember the one before for a roll-back."""
    if divided == endpoint.traffic:
        return endpoint
    tags = {**endpoint.tags, BEFORE: str(endpoint.traffic)}
    return endpoints.put(endpoint.name, endpoint_body(outputs, divided, tags))


def _words(workspace: Workspace, endpoint: EndpointState, deployment: Deployment) -> str:
    price = known_prices(workspace.manager).find(deployment.size, "Dedicated")
    each = f"{money(price.amount, price.currency)} an hour" if price else "an unknown amount"
    return (
        f"{endpoint.name}: {deployment.model} answers as {deployment.name} at {endpoint.address};"
        f" traffic {endpoint.traffic}\nEach instance costs {each} until"
        f" `{next_command('undeploy', '--endpoint', endpoint.name)}`"
    )
