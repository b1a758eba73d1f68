"""`python -m jobs preflight`: check whether a run could start, and print what to do if not."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from common.errors import UserError
from common.text import plural
from infra.outputs import Cluster, PlatformOutputs
from jobs.assets import prepared_data
from jobs.azure import clusters
from jobs.azure.requests import segment
from jobs.azure.resource_manager import ResourceManager
from jobs.azure.storage import Storage
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console
from jobs.errors import MissingError, RequestError, SpecError
from jobs.pulumi import prerequisites
from jobs.pulumi.cli import Pulumi
from jobs.pulumi.prerequisites import Check, check, enabled
from jobs.spec import from_options
from jobs.spec.build_context import BuildContext
from jobs.spec.builder import find_cluster
from jobs.spec.from_options import REPOSITORY, RunOptions
from jobs.spec.job_spec import JobSpec
from trainer.config import TrainConfig

_NO_RUN: Final = "preflight-looks-for-this"
"""Name of a run that cannot exist: any answer shows that the service can be reached from here."""
_NEEDED: Final = ("sign-in", "workspace")
"""Checks without which the others say nothing."""
_MARKS: Final = {True: "ok  ", False: "STOP", None: "?   "}


@dataclass(frozen=True)
class PreflightOptions(RunOptions):
    """Check whether a run could start with these options of submit, without submitting it. Without
    --preset or --kind, check only what all runs need.
    """

    def check(self, program: tuple[str, ...]) -> None:
        """Check the options together with the trainer's, if they name a run."""
        if self.preset is not None or self.kind != "train":
            super().check(program)


def run(
    options: PreflightOptions,
    outputs: PlatformOutputs | None,
    *,
    as_json: bool,
    program: tuple[str, ...],
    stack: str | None = None,
) -> int:
    """Run and print all checks; return 1 if one failed.

    A stack that is not deployed is checked for the needs of its deployment.
    """
    console, checks = Console(as_json=as_json), []
    results = look(connect(outputs), outputs, options, program) if outputs else _before(stack)
    for result in results:
        checks.append(result)
        mark = _MARKS[result.good]
        console.say(f"{mark}  {result.name}: " + result.text.replace("\n", "\n      "))
    failed = sum(result.good is False for result in checks)
    unknown = [result.name for result in checks if result.good is None]
    if as_json:
        document = [{"name": c.name, "good": c.good, "text": c.text} for c in checks]
        console.answer(document, "")
    verdict = f"a run could start{f', if {unknown[0]} allows it' if unknown else ''}"
    console.say(f"{failed} of {len(checks)} checks failed" if failed else verdict)
    return 1 if failed else 0


def _before(stack: str | None) -> Iterator[Check]:
    pulumi = Pulumi(REPOSITORY, stack or "dev")
    existing = pulumi.check()
    yield from prerequisites.look(prerequisites.of_stack(pulumi), existing)
    text = f"stack {pulumi.stack} is not deployed; `make up STACK={pulumi.stack}` deploys it"
    yield Check("platform", good=False, text=text)


def look(
    workspace: Workspace,
    outputs: PlatformOutputs,
    options: PreflightOptions,
    program: tuple[str, ...],
) -> Iterator[Check]:
    """Run all checks, beginning with those that the others depend on."""
    manager, storage = workspace.manager, workspace.storage
    questions: dict[str, Callable[[], str]] = {
        "sign-in": workspace.requests.user_words,
        "subscription": lambda: enabled(manager),
        "workspace": lambda: _workspace(manager, outputs),
        "run history": lambda: _run_history(workspace),
        "storage": lambda: _storage(storage),
    }
    for name, question in questions.items():
        result = check(name, question)
        yield result
        if not result.good and name in _NEEDED:
            return
    config: TrainConfig | None = None
    spec: JobSpec | None = None
    image: BuildContext | None = None
    if options.preset is not None or options.kind != "train":
        try:
            config = from_options.read_config(options, program)
            software = from_options.read_software(config)
            attempt = from_options.first_attempt(options)
            spec = from_options.make_spec(outputs, options, config, attempt, software.versions)
            image = software.image(spec)
        except UserError as error:
            yield Check("options", good=False, text=str(error))
            return
        yield Check("options", good=True, text=f"{spec.description}")
    try:
        cluster = spec.cluster if spec else find_cluster(outputs, options.cluster, "train")
    except SpecError as error:
        yield Check("cluster", good=False, text=str(error))
        return
    yield from _cluster_checks(manager, cluster, options.nodes)
    if spec is not None and image is not None:
        files, environment = len(image.contents), spec.environment
        registry = workspace.image_registry
        yield check("image", lambda: _image(manager, environment, files, registry))
    if config is not None and config.data.source == "tfrecords" and spec is not None:
        ranks = spec.ranks
        yield check("data", lambda: _data(manager, storage, options, config, ranks))


def _workspace(manager: ResourceManager, outputs: PlatformOutputs) -> str:
    state = manager.get(manager.workspace_id)["properties"].get("provisioningState")
    if state not in (None, "Succeeded"):
        raise UserError(
            f"{manager.workspace}: its state is {state}; wait, or deploy the stack again"
        )
    return f"{manager.workspace} ({outputs.access.profile})"


def _run_history(workspace: Workspace) -> str:
    with suppress(MissingError):
        workspace.jobs.details(_NO_RUN)
    return "job states and logs can be read from here"


def _storage(storage: Storage) -> str:
    store = storage.datastores.results
    storage.read(store, f"runs/{_NO_RUN}")
    return f"results can be read from {store.account}"


def _cluster_checks(manager: ResourceManager, cluster: Cluster, needed: int) -> Iterator[Check]:
    try:
        answer: Any = manager.get(f"computes/{segment(cluster.name)}")
    except RequestError as error:
        absent = f"{cluster.name} is not in the workspace; deploy the stack again (make up)"
        text = absent if isinstance(error, MissingError) else str(error)
        yield Check("cluster", good=False, text=text)
        return
    problems = clusters.problems(cluster, needed, answer)
    nodes = clusters.read_nodes(answer)
    text = f"{cluster.name}: at most {nodes.max_nodes} x {nodes.size}, {nodes.allocated} allocated"
    yield Check("cluster", good=not problems, text="\n".join(problems) or text)
    missing = clusters.missing_cores(manager, nodes, needed)
    if missing is None:
        text = f"unknown, as Azure does not report the cores of {nodes.size}; the portal shows them"
        yield Check("quota", good=None, text=f"{text} under Quotas, Machine Learning")
    else:
        enough = f"enough cores for {needed} x {nodes.size}"
        yield Check("quota", good=not missing, text="\n".join(missing) or enough)


def _image(manager: ResourceManager, environment: str, files: int, registry: str | None) -> str:
    name, _, version = environment.partition(":")
    if manager.find(f"environments/{segment(name)}/versions/{segment(version)}") is None:
        # Not a failure, as submit registers it.
        then = f"it ({plural(files, 'file')}), and the first job waits until it is built"
        if registry is not None:
            then = f"{registry}/{environment}, which must have been pushed before a job can use it"
        return f"{environment} is not registered yet; submit registers {then}"
    return f"{environment} is registered"


def _data(
    manager: ResourceManager,
    storage: Storage,
    options: PreflightOptions,
    config: TrainConfig,
    ranks: int,
) -> str:
    asset = options.data.asset
    uri = None if asset is None else manager.data_uri(asset)
    manifest = prepared_data.read_manifest(storage, options.data, uri)
    plan = prepared_data.plan(config, ranks, manifest)
    return (
        f"version {manifest.version}: {plural(plan.examples, 'image')},"
        f" {plural(len(manifest.classes), 'class', 'classes')};"
        f" {plural(plan.last_step, 'step')} of {plural(plan.global_batch, 'image')}"
    )
