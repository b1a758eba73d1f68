"""`python -m jobs submit`: print a summary, submit a job and follow it to its end."""

import secrets
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from common.errors import INTERRUPTED, UserError
from common.prices import money
from common.program import load
from common.waiting import wait_until
from infra.outputs import PlatformOutputs
from jobs.assets import images, prepared_data
from jobs.assets.code import upload
from jobs.azure import submission
from jobs.azure.costs import read_prices
from jobs.azure.job_records import Job, Jobs
from jobs.azure.results import read_artifact
from jobs.azure.workspace import Workspace, connect
from jobs.commands.follow import WatchOptions, follow, make_supervisor, notes
from jobs.commands.runs.budget import BudgetOptions, within_budget
from jobs.console import Console, next_command
from jobs.errors import AccessError, RequestError, SignInError, UnreachableError
from jobs.exit_status import POOR_CLUSTER
from jobs.following.cluster_check_result import VERDICTS, ClusterCheckResult, assess
from jobs.following.supervision_policy import mark
from jobs.following.supervisor import Supervisor
from jobs.leaves import LEAVES, SubmitLeaves
from jobs.options import AttemptOptions
from jobs.retry import AzureRetry
from jobs.spec import from_options, summary
from jobs.spec.builder import SoftwareVersions
from jobs.spec.code_snapshot import git_properties
from jobs.spec.from_options import RunOptions, Software
from jobs.spec.job_spec import JobSpec
from jobs.spec.kinds import CHECK_RESULT
from jobs.spec.run_key import RunAttempt, new_key
from trainer.config import TrainConfig
from trainer.data.manifest import Manifest
from trainer.training.plan import Plan


@dataclass(frozen=True)
class LaunchOptions(AttemptOptions, WatchOptions):
    """How a job is submitted and followed."""

    name: str | None = None
    """Key of the run; None is the kind of work, the time and random letters. With the key of one
    that has ended, resume that."""

    no_follow: bool = False
    """Exit once the job is submitted."""


@dataclass(frozen=True)
class SubmitOptions(SubmitLeaves, RunOptions, LaunchOptions, BudgetOptions):
    """Start a run on the platform: python -m jobs submit --preset NAME [options] [-- options of
    the trainer]. Print a summary, submit the job and follow it to its end; Ctrl-C leaves it
    running.
    """

    check_cluster: bool = False
    """First check the network of the same number of nodes with a short job, and submit the training
    only if the check passes."""

    even_if_poor: bool = False
    """Submit the training even if the cluster check finds a problem."""

    no_supervise: bool = False
    """Do not submit the run again if its Spot nodes are pre-empted: neither here, nor by
    `supervise`."""

    dry_run: bool = False
    """Print the summary without submitting. Without a sign-in to Azure, the cluster, the data set
    and the budget are not looked up."""

    def check(self, program: tuple[str, ...]) -> None:
        """Check the options together with the trainer's."""
        RunOptions.check(self, program)
        LaunchOptions.check(self, program)


def run(
    options: SubmitOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit a job and follow it to its end."""
    console = Console(as_json=as_json)
    options = from_options.with_own_key(options, Path.home())
    config = from_options.read_config(options, program)
    software = from_options.read_software(config)
    # Everything that can be checked locally is checked before the first request.
    attempt = from_options.first_attempt(options)
    spec = from_options.make_spec(outputs, options, config, attempt, software.versions)
    spec, offers = _offered(outputs, options, config, attempt, software, spec)
    workspace = connect(outputs)

    def look(spec: JobSpec) -> Looked:
        spec = within_budget(workspace, outputs.clusters, spec, config, options)
        plan = show(console, workspace, spec, options, config)
        for check, others in offers:
            for text in check(workspace.manager, spec, others, config):
                console.say(f"  {text}")
        if options.dry_run:
            console.answer(summary.document(spec, plan), "nothing was submitted")
            return Looked(spec, plan, 0)
        status = _prepare(console, workspace, outputs, options, spec, software)
        return Looked(spec, plan, status)

    if options.dry_run:
        try:
            named = spec if options.name is None else submission.numbered(workspace.jobs, spec)
            return look(named).status or 0
        except SignInError as error:
            return _look_without_azure(console, spec, config, error)
    lasting = spec.cluster.priority != "LowPriority" and not offers
    resubmits = not lasting and not options.no_supervise
    return launch(options, outputs, workspace, console, spec, software, look, resubmits=resubmits)


def _look_without_azure(
    console: Console, spec: JobSpec, config: TrainConfig | None, error: SignInError
) -> int:
    """Print the summary of a job as far as it is known without a sign-in; return 0."""
    plan = None
    if config is not None and config.data.source != "tfrecords":
        plan = prepared_data.plan(config, spec.ranks, None)
    console.say(summary.lines(spec, plan, None, "no sign-in to Azure" if config else None))
    reason = str(error).splitlines()[0]
    console.note(f"note: {reason}; the cluster, the data set and the budget were not looked up")
    console.answer(summary.document(spec, plan), "nothing was submitted")
    return 0


def _offered(
    outputs: PlatformOutputs,
    options: SubmitOptions,
    config: TrainConfig | None,
    attempt: RunAttempt,
    software: Software,
    spec: JobSpec,
) -> tuple[JobSpec, list[tuple[Callable[..., Iterable[str]], list[JobSpec]]]]:
    """Return a job with what leaves offer its further attempts: for each leaf that offers any, how
    they are checked, and the jobs.
    """

    def build(key: str, nodes: int, config: TrainConfig) -> JobSpec:
        other = replace(options, cluster=key, nodes=nodes)
        return from_options.make_spec(outputs, other, config, attempt, software.versions)

    key = next(key for key, one in outputs.clusters.items() if one == spec.cluster)
    found = []
    for placement in (leaf.placement for leaf in LEAVES if leaf.placement):
        spec, others = load(placement.offer)(options, spec, config, key, build)
        if others:
            found.append((load(placement.check), others))
    return spec, found


@dataclass(frozen=True)
class Looked:
    """What a look at the workspace says of a job that is to be submitted."""

    spec: JobSpec
    """The job, perhaps with narrower limits."""
    plan: Plan | None = None
    """Plan of a job that trains; None if it is unknown."""
    status: int | None = None
    """Exit status if the job is not to be submitted."""


def launch(
    options: LaunchOptions,
    outputs: PlatformOutputs,
    workspace: Workspace,
    console: Console,
    spec: JobSpec,
    software: Software,
    look: Callable[[JobSpec], Looked],
    *,
    resubmits: bool,
) -> int:
    """Submit a job after a look at the workspace, and follow it to its end.

    Args:
        options: How it is submitted and followed.
        outputs: Outputs of the stack.
        workspace: Workspace of the stack.
        console: Output of the command.
        spec: First attempt of the run.
        software: Images and code.
        look: Checks the job in the workspace, and prints its summary.
        resubmits: Whether the run is submitted again if it is interrupted.

    Returns:
        Exit status.
    """
    # What can be wrong with the options is said before the first request.
    settings = options.settings()
    if resubmits:
        spec = replace(spec, tags={**spec.tags, **mark(options.resubmit)})
    try:
        looked = look(spec if options.name is None else submission.numbered(workspace.jobs, spec))
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was submitted", file=sys.stderr)
        return INTERRUPTED
    if looked.status is not None:
        return looked.status
    supervisor = make_supervisor(
        workspace, outputs, console, settings, options.resubmit, resubmits=resubmits
    )
    return _carry_out(workspace, supervisor, looked, software, follows=not options.no_follow)


def launch_work(
    options: LaunchOptions,
    outputs: PlatformOutputs,
    workspace: Workspace,
    console: Console,
    label: str,
    make: Callable[[RunAttempt, SoftwareVersions], JobSpec],
) -> int:
    """Print a summary with the costs, submit a job that does not train, and follow it to its end.

    Args:
        options: How it is submitted and followed.
        outputs: Outputs of the stack.
        workspace: Workspace of the stack.
        console: Output of the command.
        label: First part of the key of a run without a name.
        make: Builds the job of an attempt.

    Returns:
        Exit status.
    """
    key = options.name or new_key(label, datetime.now(UTC), secrets.token_hex(2))
    software = from_options.read_software()

    def look(spec: JobSpec) -> Looked:
        submission.look_up(workspace.manager, spec)
        console.say(summary.lines(spec, None, None, None))
        console.say(f"  {_price(workspace, spec)}")
        register_image(console, workspace, spec, software)
        return Looked(spec)

    spec = make(RunAttempt(key), software.versions)
    resubmits = spec.cluster.priority == "LowPriority"
    return launch(options, outputs, workspace, console, spec, software, look, resubmits=resubmits)


def _carry_out(
    workspace: Workspace,
    supervisor: Supervisor,
    looked: Looked,
    software: Software,
    *,
    follows: bool,
) -> int:
    """Submit a job, and follow it to its end if `follows`; return the exit status."""
    console, spec = supervisor.console, looked.spec
    job = hand_over(console, workspace, spec, software, supervisor.retry)
    if job is None:
        return INTERRUPTED
    if not follows:
        _leave(supervisor, looked, job)
        return 0
    result = follow(workspace, supervisor, job)
    if result is None:
        return INTERRUPTED
    if spec.kind == "check" and result.exit_code == 0:
        measured = _read_check(console, workspace, result.job, spec)
        console.say(VERDICTS[measured.good])
        return 0 if measured.good else POOR_CLUSTER
    return result.exit_code


def show(
    console: Console,
    workspace: Workspace,
    spec: JobSpec,
    options: RunOptions,
    config: TrainConfig | None,
) -> Plan | None:
    """Check the cluster and the data that a job refers to, and print the summary.

    Returns:
        Plan of the training, or None if it is unknown.

    Raises:
        UserError: The cluster or the data set does not fit the job.
    """
    uris = submission.look_up(workspace.manager, spec)
    plan: Plan | None = None
    manifest: Manifest | None = None
    unknown: str | None = None
    if config is not None:
        if config.data.source == "tfrecords":
            try:
                uri = uris.get(options.data.asset or "")
                manifest = prepared_data.read_manifest(workspace.storage, options.data, uri)
            except (AccessError, UnreachableError) as error:
                # The user may lack the role, or the network, to read the data.
                unknown = str(error).splitlines()[0]
        if manifest is not None or config.data.source != "tfrecords":
            plan = prepared_data.plan(config, spec.ranks, manifest)
    console.say(summary.lines(spec, plan, manifest, unknown))
    return plan


def register_image(
    console: Console, workspace: Workspace, spec: JobSpec, software: Software
) -> None:
    """Register the image of a job unless it is registered, and print its name."""
    context, registry = software.image(spec), workspace.image_registry
    image = images.ensure(workspace.manager, workspace.storage, context, registry=registry)
    pushed = f" as {registry}/{image}, which must have been pushed" if registry else ""
    console.say(f"image {image} is registered{pushed}")


def hand_over(
    console: Console, workspace: Workspace, spec: JobSpec, software: Software, retry: AzureRetry
) -> Job | None:
    """Submit one job; return None if Ctrl-C interrupted that."""
    jobs, manager = workspace.jobs, workspace.manager
    try:
        code_id = upload(manager, software.code)
        properties = git_properties(from_options.REPOSITORY)
        job = submission.submit(jobs, spec, manager.workspace_id, code_id, properties, retry)
        console.say(f"{job.name}: submitted" + (f", see {job.page}" if job.page else ""))
    except KeyboardInterrupt:
        # The request may already have been sent.
        # The commands come first, as a second Ctrl-C ends the check.
        print(
            f"\ninterrupted; if {spec.name} was submitted already:\n"
            f"  {next_command('follow', spec.run)}    follows it\n"
            f"  {next_command('cancel', spec.run)}    cancels it\n"
            "checking whether it was",
            file=sys.stderr,
            flush=True,
        )
        with suppress(KeyboardInterrupt):
            arrived = _arrived(jobs, spec.name)
            state = "was already submitted" if arrived else "does not exist yet"
            print(f"{spec.name} {state}", file=sys.stderr)
        return None
    return job


def _leave(supervisor: Supervisor, looked: Looked, job: Job) -> None:
    """Print how to follow a job later."""
    resubmits = supervisor.resubmits
    back = next_command("follow", job.run, *(["--supervise"] if resubmits else []))
    supervisor.console.answer(
        {**summary.document(looked.spec, looked.plan), "page": job.page},
        "\n".join([*notes(job, resubmits=resubmits), f"`{back}` follows it"]),
    )


def _arrived(jobs: Jobs, name: str) -> bool:
    """Whether a job exists, or appears within a moment."""
    try:
        return wait_until(lambda: jobs.get(name) is not None, submission.ARRIVAL_SECONDS, 0.5)
    except RequestError as error:
        print(f"{name}: cannot be looked up: {error}", file=sys.stderr)
        return False


def _prepare(
    console: Console,
    workspace: Workspace,
    outputs: PlatformOutputs,
    options: SubmitOptions,
    spec: JobSpec,
    software: Software,
) -> int | None:
    """Register the image and check the cluster; return an exit status if no job is to follow."""
    register_image(console, workspace, spec, software)
    if options.check_cluster and spec.kind in ("train", "benchmark"):
        return _check(console, workspace, outputs, options, spec, software)
    return None


def _check(
    console: Console,
    workspace: Workspace,
    outputs: PlatformOutputs,
    options: SubmitOptions,
    training: JobSpec,
    software: Software,
) -> int | None:
    """Run the cluster check; return the exit status to end with, or None if the check passed."""
    # A run that is resumed is checked again.
    attempt = submission.free_attempt(workspace.jobs, from_options.check_attempt(training.run))
    spec = from_options.check_spec(outputs, options, attempt, software.versions)
    retry = options.settings().retry(console)
    job = hand_over(console, workspace, spec, software, retry)
    if job is None:
        return INTERRUPTED
    settings = replace(options.settings(), ranks=lambda _: False)
    quiet = Console(as_json=True)
    supervisor = make_supervisor(
        workspace, outputs, quiet, settings, options.resubmit, resubmits=True, notifies=False
    )
    try:
        result = supervisor.follow(job)
    except KeyboardInterrupt:
        print(
            "\ninterrupted; the training was not submitted, the check continues"
            f" (`{next_command('cancel', job.run)}` cancels it)",
            file=sys.stderr,
        )
        return INTERRUPTED
    if result.exit_code:
        logs = next_command("logs", result.job.name, "--rank", "all")
        raise UserError(
            f"{result.job.name}: the cluster check failed ({result.reason}); the training was not"
            f" submitted. `{logs}` shows its log"
        )
    measured = _read_check(console, workspace, result.job, spec)
    if not measured.good and not options.even_if_poor:
        console.note(
            "the cluster check found a problem, so the training was not submitted; --even-if-poor"
            " submits it anyway"
        )
        return POOR_CLUSTER
    return None


def _read_check(
    console: Console, workspace: Workspace, job: Job, spec: JobSpec
) -> ClusterCheckResult:
    """Read and print the result of a cluster check."""
    measured = read_artifact(workspace.manager, workspace.storage, job.name, CHECK_RESULT)
    result = assess(measured, spec.cluster)
    for line in result.lines:
        console.say(f"  {line}")
    return result


def _price(workspace: Workspace, spec: JobSpec) -> str:
    """Say what a job costs while it runs."""
    cluster = spec.cluster
    try:
        price = read_prices(workspace.manager).find(cluster.size, cluster.priority)
    except RequestError:
        price = None
    if price is None:
        return f"cost: unknown, as Azure states no price of {cluster.priority} {cluster.size}"
    each = f", {money(price.amount, price.currency)} each" if spec.nodes > 1 else ""
    return f"cost: {money(price.amount * spec.nodes, price.currency)} an hour{each}"
