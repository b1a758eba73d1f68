"""`python -m jobs preflight`: whether a run could start, each point with what to do about it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from common.errors import UserError
from infra.outputs import Cluster, PlatformOutputs
from jobs.assets import prepared_data
from jobs.azure import submission
from jobs.azure.results import read
from jobs.azure.workspace import Workspace, connect, segment
from jobs.console import Console
from jobs.errors import MissingError, RequestError
from jobs.following import job_states
from jobs.following.follower import quota_problems
from jobs.spec import from_options
from jobs.spec.build_context import build_context
from jobs.spec.from_options import RunOptions
from jobs.spec.job_spec import JobSpec
from trainer.config import TrainConfig

SUBSCRIPTIONS = "2022-12-01"
"""Version of Resource Manager's own interface."""


@dataclass(frozen=True)
class PreflightOptions(RunOptions):
    """Look whether a run could start, with the options of submit; submits nothing. Without --preset
    or --kind only what all runs need.
    """


@dataclass(frozen=True)
class Point:
    """One thing that was looked at."""

    name: str
    good: bool
    text: str
    """What was found, or what to do."""


def run(
    options: PreflightOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Look at everything; status 1 if something is not as it must be."""
    console, points = Console(as_json=as_json), []
    for point in look(connect(outputs), options, program):
        points.append(point)
        mark = "ok  " if point.good else "STOP"
        console.say(f"{mark}  {point.name}: " + point.text.replace("\n", "\n      "))
    bad = sum(not point.good for point in points)
    if as_json:
        console.answer([{"name": p.name, "good": p.good, "text": p.text} for p in points], "")
    console.say("a run could start" if not bad else f"{bad} of {len(points)} points to mend")
    return 1 if bad else 0


def look(
    workspace: Workspace, options: PreflightOptions, program: tuple[str, ...]
) -> Iterator[Point]:
    """All points, those first without which the others cannot be looked at."""
    signed_in = _point("sign-in", lambda: f"as {_who(workspace)}")
    yield signed_in
    if not signed_in.good:
        return
    yield _point("subscription", lambda: _subscription(workspace))
    there = _point("workspace", lambda: _workspace(workspace))
    yield there
    if not there.good:
        return
    yield _point("run history", lambda: _run_history(workspace))
    yield _point("storage", lambda: _storage(workspace))
    config: TrainConfig | None = None
    spec: JobSpec | None = None
    if options.preset is not None or options.kind != "train":
        try:
            config = from_options.read_config(options, program)
            attempt = from_options.first_attempt(options)
            spec = from_options.make_spec(
                workspace.outputs, options, config, attempt, from_options.read_source()
            )
        except UserError as error:
            yield Point("options", good=False, text=str(error))
            return
        yield Point("options", good=True, text=f"{spec.description}")
    cluster = spec.cluster if spec else _named(workspace.outputs, options)
    yield from _cluster_points(workspace, cluster, options.nodes)
    if spec is not None:
        yield _point("image", lambda: _image(workspace, spec))
    if config is not None and config.data.source == "tfrecords" and spec is not None:
        ranks = spec.ranks
        yield _point("data", lambda: _data(workspace, options, config, ranks))


def _point(name: str, ask: Callable[[], str]) -> Point:
    try:
        return Point(name, good=True, text=ask())
    except UserError as error:
        return Point(name, good=False, text=str(error))


def _who(workspace: Workspace) -> str:
    workspace.token()
    return workspace.who() or "somebody without a name"


def _subscription(workspace: Workspace) -> str:
    outputs = workspace.outputs
    found = workspace.arm("GET", f"/subscriptions/{outputs.subscription_id}", SUBSCRIPTIONS)
    name, state = found.get("displayName"), found.get("state")
    if state not in (None, "Enabled", "Warned"):
        raise UserError(f"{name} is {state}; its owner has to enable it in the portal")
    tenant = found.get("tenantId")
    if tenant not in (None, outputs.tenant_id):
        raise UserError(
            f"{name} belongs to tenant {tenant}, but the stack was deployed in {outputs.tenant_id};"
            f" sign in there: az login --tenant {outputs.tenant_id}"
        )
    return f"{name or outputs.subscription_id}"


def _workspace(workspace: Workspace) -> str:
    found = workspace.arm("GET", workspace.id)
    state = found["properties"].get("provisioningState")
    if state not in (None, "Succeeded"):
        raise UserError(
            f"{workspace.outputs.workspace}: its state is {state}; wait, or deploy the stack again"
        )
    return f"{workspace.outputs.workspace} ({workspace.outputs.access.profile})"


def _run_history(workspace: Workspace) -> str:
    # A run that cannot be there: the answer tells that the service can be reached from here.
    with suppress(MissingError):
        workspace.history("GET", "runs/preflight-looks-for-this/details")
    return "states and logs can be read from here"


def _storage(workspace: Workspace) -> str:
    store = workspace.outputs.datastores.results
    # Whether it is there does not matter: the answer tells that it may be asked for.
    read(workspace, store, "runs/preflight-looks-for-this")
    return f"results can be read from {store.account}"


def _cluster_points(workspace: Workspace, cluster: Cluster, wanted: int) -> Iterator[Point]:
    try:
        found: Any = workspace.arm("GET", f"computes/{segment(cluster.name)}")
    except MissingError:
        yield Point(
            "cluster",
            good=False,
            text=f"{cluster.name} is not in the workspace; deploy the stack again (make up)",
        )
        return
    except RequestError as error:
        yield Point("cluster", good=False, text=str(error))
        return
    problems = submission.cluster_problems(cluster, wanted, found)
    nodes = job_states.read_nodes(found)
    text = f"{cluster.name}: {nodes.most} x {nodes.size} at most, {nodes.allocated} allocated"
    yield Point("cluster", good=not problems, text="\n".join(problems) or text)
    missing = quota_problems(workspace, nodes, wanted)
    enough = f"enough cores for {wanted} x {nodes.size}"
    if missing is None:
        enough = f"Azure does not tell how many cores are left for {nodes.size}"
    yield Point("quota", good=not missing, text="\n".join(missing or [enough]))


def _image(workspace: Workspace, spec: JobSpec) -> str:
    name, _, version = spec.environment.partition(":")
    try:
        workspace.arm("GET", f"environments/{segment(name)}/versions/{segment(version)}")
    except MissingError:
        # What submit does by itself is no reason to stop.
        files = len(build_context(from_options.REPOSITORY, from_options.image_of(spec)).contents)
        return (
            f"{spec.environment} is not registered yet; submit does it ({files} files), and its"
            " first job waits until it is built"
        )
    return f"{spec.environment} is registered"


def _data(workspace: Workspace, options: PreflightOptions, config: TrainConfig, ranks: int) -> str:
    found = prepared_data.manifest(workspace, options.data)
    plan = prepared_data.plan(config, ranks, found)
    return (
        f"version {found.version}: {plan.examples:,} images, {len(found.classes)} classes;"
        f" {plan.last_step:,} steps of {plan.global_batch:,} images"
    )


def _named(outputs: PlatformOutputs, options: PreflightOptions) -> Cluster:
    found: Cluster | None = getattr(outputs.clusters, options.cluster)
    return found or outputs.clusters.gpu
