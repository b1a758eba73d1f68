"""From the draft of a job to its end: the steps that commands share which submit a job."""

import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Generic, TypeAlias, TypeVar

from common.errors import INTERRUPTED
from common.prices import money
from common.waiting import wait_until
from infra.outputs import PlatformOutputs
from jobs.assets import images
from jobs.assets.code import upload
from jobs.azure import submission
from jobs.azure.costs import known_prices
from jobs.azure.job_records import Job, Jobs
from jobs.azure.results import read_artifact
from jobs.azure.workspace import Workspace
from jobs.commands.follow import WatchOptions, follow, make_supervisor, notes
from jobs.console import Console, next_command
from jobs.errors import RequestError
from jobs.exit_status import POOR_CLUSTER
from jobs.following.cluster_check_result import VERDICTS, ClusterCheckResult, assess
from jobs.following.supervision_policy import mark
from jobs.leaf import Placement
from jobs.options import AttemptOptions, JobOptions
from jobs.retry import AzureRetry
from jobs.spec import from_options, summary
from jobs.spec.builder import SoftwareVersions
from jobs.spec.code_snapshot import git_properties
from jobs.spec.from_options import Software
from jobs.spec.job_spec import JobSpec
from jobs.spec.kinds import CHECK_RESULT
from jobs.spec.run_key import RunAttempt, new_key
from trainer.config import TrainConfig
from trainer.training.plan import Plan


@dataclass(frozen=True)
class LaunchOptions(AttemptOptions, WatchOptions):
    """How a job is submitted and followed."""

    name: str | None = None
    """Key of the run; None is the kind of work, the time and random letters. With the key of one
    that has ended, resume that."""

    no_follow: bool = False
    """Exit once the job is submitted."""

    @property
    def job(self) -> JobOptions:
        """Options of the job: those that the command has."""
        names = [field.name for field in fields(JobOptions) if hasattr(self, field.name)]
        return JobOptions(**{name: getattr(self, name) for name in names})


_Options = TypeVar("_Options", bound=LaunchOptions)


@dataclass(frozen=True)
class Draft(Generic[_Options]):
    """A job before it is submitted, with the knowledge of the steps so far."""

    options: _Options
    outputs: PlatformOutputs
    workspace: Workspace
    console: Console
    software: Software
    spec: JobSpec
    resubmits: bool
    """Whether the run is submitted again if it is interrupted."""
    config: TrainConfig | None = None
    """Configuration of a job that trains."""
    plan: Plan | None = None
    """Plan of a job that trains; None if it is unknown."""
    further: Sequence[tuple[Placement, Sequence[JobSpec]]] = ()
    """The jobs that the run may continue as elsewhere, by the placement that offers them."""


Need: TypeAlias = Callable[[Draft[_Options]], Draft[_Options]]
"""Checks a need of a job in the workspace, before the job costs money. Prints its findings and
returns the draft with them; raises a `UserError` that says what to do."""


def with_needs(draft: Draft[_Options], needs: Iterable[Need[_Options]]) -> Draft[_Options]:
    """Check the needs of a job in their order; return its draft with their findings.

    Raises:
        UserError: A need is not met.
    """
    for need in needs:
        draft = need(draft)
    return draft


def launch_work(
    options: LaunchOptions,
    outputs: PlatformOutputs,
    workspace: Workspace,
    console: Console,
    label: str,
    make: Callable[[RunAttempt, SoftwareVersions], JobSpec],
) -> int:
    """Submit a job that does not train, and follow it to its end.

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
    spec = make(RunAttempt(key), software.versions)
    resubmits = spec.cluster.priority == "LowPriority"
    draft = Draft(options, outputs, workspace, console, software, spec, resubmits)
    try:
        draft = with_needs(draft, (with_free_attempt, _cluster_and_folders))
        register_image(draft.console, draft.workspace, draft.spec, draft.software)
    except KeyboardInterrupt:
        return nothing_submitted()
    return carry_out(draft)


def with_free_attempt(draft: Draft[_Options]) -> Draft[_Options]:
    """Make a job the next attempt of the run that --name names, whose attempts have all ended."""
    if draft.options.name is None:
        return draft
    attempt = submission.free_attempt(draft.workspace.jobs, RunAttempt(draft.spec.run))
    return replace(draft, spec=draft.spec.for_attempt(attempt))


def _cluster_and_folders(draft: Draft[_Options]) -> Draft[_Options]:
    """Check the cluster of a job that does not train, and print its summary with its price."""
    workspace, spec = draft.workspace, draft.spec
    submission.look_up(workspace.manager, spec)
    draft.console.say(summary.lines(spec, None, None, None))
    draft.console.say(f"  {_price(workspace, spec)}")
    return draft


def register_image(
    console: Console, workspace: Workspace, spec: JobSpec, software: Software
) -> None:
    """Register the image of a job unless it is registered, and print its name."""
    context, registry = software.image(spec), workspace.image_registry
    image = images.ensure(workspace.manager, workspace.storage, context, registry=registry)
    pushed = f" as {registry}/{image}, which must have been pushed" if registry else ""
    console.say(f"image {image} is registered{pushed}")


def nothing_submitted() -> int:
    """Say that Ctrl-C came before the submission; return the exit status."""
    print("\ninterrupted; nothing was submitted", file=sys.stderr)
    return INTERRUPTED


def carry_out(draft: Draft[_Options]) -> int:
    """Submit a job, and follow it to its end unless the options say otherwise.

    Returns:
        Exit status.
    """
    options, workspace, console, spec = draft.options, draft.workspace, draft.console, draft.spec
    if draft.resubmits:
        spec = replace(spec, tags={**spec.tags, **mark(options.resubmit)})
    supervisor = make_supervisor(
        workspace,
        draft.outputs,
        console,
        options.settings(),
        options.resubmit,
        resubmits=draft.resubmits,
    )
    job = hand_over(console, workspace, spec, draft.software, supervisor.retry)
    if job is None:
        return INTERRUPTED
    if options.no_follow:
        _leave(replace(draft, spec=spec), job)
        return 0
    result = follow(workspace, supervisor, job)
    if result is None:
        return INTERRUPTED
    if spec.kind == "check" and result.exit_code == 0:
        measured = read_check(console, workspace, result.job, spec)
        console.say(VERDICTS[measured.good])
        return 0 if measured.good else POOR_CLUSTER
    return result.exit_code


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
        )
        with suppress(KeyboardInterrupt):
            state = "was already submitted" if _arrived(jobs, spec.name) else "does not exist yet"
            print(f"{spec.name} {state}", file=sys.stderr)
        return None
    return job


def _leave(draft: Draft[_Options], job: Job) -> None:
    """Print how to follow a job later."""
    resubmits = draft.resubmits
    back = next_command("follow", job.run, *(["--supervise"] if resubmits else []))
    draft.console.answer(
        {**summary.document(draft.spec, draft.plan), "page": job.page},
        "\n".join([*notes(job, resubmits=resubmits), f"`{back}` follows it"]),
    )


def _arrived(jobs: Jobs, name: str) -> bool:
    """Whether a job exists, or appears within a moment."""
    try:
        return wait_until(lambda: jobs.get(name) is not None, submission.ARRIVAL_SECONDS, 0.5)
    except RequestError as error:
        print(f"{name}: cannot be looked up: {error}", file=sys.stderr)
        return False


def read_check(
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
    price = known_prices(workspace.manager).find(cluster.size, cluster.priority)
    if price is None:
        return f"cost: unknown, as Azure states no price of {cluster.priority} {cluster.size}"
    each = f", {money(price.amount, price.currency)} each" if spec.nodes > 1 else ""
    return f"cost: {money(price.amount * spec.nodes, price.currency)} an hour{each}"
