"""`python -m jobs submit`: a training on the platform, from a summary to its end."""

import sys
import time
from dataclasses import dataclass, replace

from common.errors import INTERRUPTED, UserError
from infra.outputs import PlatformOutputs
from jobs.assets import images, prepared_data
from jobs.assets.code import upload
from jobs.azure import submission
from jobs.azure.job_records import Job, Jobs
from jobs.azure.results import read_artifact
from jobs.azure.workspace import Workspace, connect
from jobs.commands.follow import WatchOptions, follow, make_supervisor, notes
from jobs.console import Console, next_command
from jobs.errors import AccessError, RequestError, UnreachableError
from jobs.exit_status import POOR_CLUSTER
from jobs.following.cluster_check_result import ClusterCheckResult, assess
from jobs.following.supervisor import Supervisor
from jobs.spec import from_options, summary
from jobs.spec.code_snapshot import git_properties
from jobs.spec.from_options import RunOptions, Software
from jobs.spec.job_spec import JobSpec
from jobs.spec.kinds import CHECK_RESULT
from trainer.config import TrainConfig
from trainer.data.manifest import Manifest
from trainer.training.plan import Plan

ARRIVAL_SECONDS = 5.0
"""After Ctrl-C, that a request which was on its way may take to become a job."""


@dataclass(frozen=True)
class SubmitOptions(RunOptions, WatchOptions):
    """Run a training on the platform: python -m jobs submit --preset NAME [options] [-- options of
    the trainer]. A summary first, then it is followed to its end; Ctrl-C leaves it running.
    """

    check_cluster: bool = False
    """Measure the network of as many nodes by a short job first, and submit only if it is good."""

    even_if_poor: bool = False
    """Submit although the check found something poor."""

    no_follow: bool = False
    """End when the job is submitted."""

    no_supervise: bool = False
    """Do not submit the run again when nodes of LowPriority were pre-empted."""

    dry_run: bool = False
    """Print the summary, and submit nothing."""


def run(
    options: SubmitOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit, and follow to the end."""
    console, settings = Console(as_json=as_json), options.settings()
    config, software = from_options.read_config(options, program), from_options.read_software()
    # All that can be refused without asking anyone is refused before anyone is asked.
    attempt = from_options.first_attempt(options)
    spec = from_options.make_spec(outputs, options, config, attempt, software.versions)
    workspace = connect(outputs)
    try:
        if options.name is not None:
            spec = spec.for_attempt(submission.free_attempt(workspace.jobs, attempt))
        plan = show(console, workspace, spec, options, config)
        status = _prepare(console, workspace, outputs, options, spec, software)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was submitted", file=sys.stderr)
        return INTERRUPTED
    if options.dry_run:
        console.answer(summary.document(spec, plan), "nothing was submitted")
    if status is not None:
        return status
    resubmits = spec.cluster.priority == "LowPriority" and not options.no_supervise
    supervisor = make_supervisor(
        workspace, outputs, console, settings, options.resubmit, resubmits=resubmits
    )
    return carry_out(workspace, supervisor, spec, software, plan, no_follow=options.no_follow)


def carry_out(
    workspace: Workspace,
    supervisor: Supervisor,
    spec: JobSpec,
    software: Software,
    plan: Plan | None,
    *,
    no_follow: bool,
) -> int:
    """Submit, and follow to the end unless a person does not want that.

    Returns:
        Exit status.
    """
    console = supervisor.console
    job = hand_over(console, workspace, spec, software)
    if job is None:
        return INTERRUPTED
    if no_follow:
        _leave(supervisor, spec, plan, job)
        return 0
    result = follow(workspace, supervisor, job)
    if result is None:
        return INTERRUPTED
    if spec.kind == "check" and result.exit_code == 0:
        measured = _read_check(console, workspace, result.job, spec)
        console.say("good" if measured.good else "something is poor")
        return 0 if measured.good else POOR_CLUSTER
    return result.exit_code


def show(
    console: Console,
    workspace: Workspace,
    spec: JobSpec,
    options: RunOptions,
    config: TrainConfig | None,
) -> Plan | None:
    """Look up what the job names, and print the summary.

    Returns:
        The run's numbers, as far as they are known.

    Raises:
        UserError: the cluster, the data set or what it holds is not as the job needs it.
    """
    submission.look_up(workspace.manager, spec)
    plan: Plan | None = None
    manifest: Manifest | None = None
    unknown: str | None = None
    if config is not None:
        if config.data.source == "tfrecords":
            try:
                manifest = prepared_data.read_manifest(
                    workspace.manager, workspace.storage, options.data
                )
            except (AccessError, UnreachableError) as error:
                # Who submits need not be allowed to read the data, or near enough to do so.
                unknown = str(error).splitlines()[0]
        if manifest is not None or config.data.source != "tfrecords":
            plan = prepared_data.plan(config, spec.ranks, manifest)
    console.say(summary.lines(spec, plan, manifest, unknown))
    return plan


def register_image(
    console: Console, workspace: Workspace, spec: JobSpec, software: Software
) -> None:
    """Make sure that the image of a job is registered, and say so."""
    image = images.ensure(workspace.manager, workspace.storage, software.image(spec))
    console.say(f"image {image} is registered")


def hand_over(
    console: Console, workspace: Workspace, spec: JobSpec, software: Software
) -> Job | None:
    """Submit one job; None if a person has interrupted it."""
    jobs, manager = workspace.jobs, workspace.manager
    try:
        code_id = upload(manager, software.code)
        properties = git_properties(from_options.REPOSITORY)
        job = submission.submit(jobs, spec, manager.workspace_id, code_id, properties)
        console.say(f"{job.name}: submitted" + (f", see {job.page}" if job.page else ""))
    except KeyboardInterrupt:
        # The request may be on its way.
        print("\ninterrupted; looking whether the job was submitted", file=sys.stderr)
        if _arrived(jobs, spec.name):
            state = f"{spec.name} was submitted already:"
        else:
            state = f"{spec.name} is not there, but a request on its way may still make it; then"
        print(
            f"{state}\n  {next_command('follow', spec.run)}    follows it\n"
            f"  {next_command('cancel', spec.run)}    ends it",
            file=sys.stderr,
        )
        return None
    return job


def _leave(supervisor: Supervisor, spec: JobSpec, plan: Plan | None, job: Job) -> None:
    """Say how to come back to a job that is not followed."""
    resubmits = supervisor.resubmits
    back = next_command("follow", job.run, *(["--supervise"] if resubmits else []))
    supervisor.console.answer(
        {**summary.document(spec, plan), "page": job.page},
        "\n".join([*notes(job, resubmits=resubmits), f"`{back}` follows it"]),
    )


def _arrived(jobs: Jobs, name: str) -> bool:
    """Whether a job is there, or comes in the next seconds."""
    until = time.monotonic() + ARRIVAL_SECONDS
    while True:
        try:
            if jobs.get(name) is not None:
                return True
        except RequestError as error:
            print(f"cannot be seen: {error}", file=sys.stderr)
            return False
        if time.monotonic() >= until:
            return False
        time.sleep(0.5)


def _prepare(
    console: Console,
    workspace: Workspace,
    outputs: PlatformOutputs,
    options: SubmitOptions,
    spec: JobSpec,
    software: Software,
) -> int | None:
    """What comes between the summary and the job; an exit status if there is to be no job."""
    if options.dry_run:
        return 0
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
    """Check the nodes first; the status to end with, or None if they are good."""
    # A run that goes on is checked again.
    attempt = submission.free_attempt(workspace.jobs, from_options.check_attempt(training.run))
    spec = from_options.check_spec(outputs, options, attempt, software.versions)
    job = hand_over(console, workspace, spec, software)
    if job is None:
        return INTERRUPTED
    settings = replace(options.settings(), ranks=lambda _: False)
    quiet = Console(as_json=True)
    supervisor = make_supervisor(
        workspace, outputs, quiet, settings, options.resubmit, resubmits=True
    )
    try:
        result = supervisor.follow(job)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; the check goes on (`{next_command('cancel', job.run)}` ends it), the"
            " training was not submitted",
            file=sys.stderr,
        )
        return INTERRUPTED
    if result.exit_code:
        logs = next_command("logs", result.job.name, "--rank", "all")
        raise UserError(
            f"{result.job.name}: the check has not succeeded ({result.reason}); the training was"
            f" not submitted. `{logs}` shows its log"
        )
    measured = _read_check(console, workspace, result.job, spec)
    if not measured.good and not options.even_if_poor:
        console.note(
            "the check found something poor, so the training was not submitted; --even-if-poor"
            " submits it nevertheless"
        )
        return POOR_CLUSTER
    return None


def _read_check(
    console: Console, workspace: Workspace, job: Job, spec: JobSpec
) -> ClusterCheckResult:
    """What a check has measured, which is printed as well."""
    measured = read_artifact(workspace.manager, workspace.storage, job.name, CHECK_RESULT)
    result = assess(measured, spec.cluster)
    for line in result.lines:
        console.say(f"  {line}")
    return result
