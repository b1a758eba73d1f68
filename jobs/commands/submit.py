"""`python -m jobs submit`: a training on the platform, from a summary to its end."""

import sys
import time
from dataclasses import dataclass, replace

from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.assets import prepared_data
from jobs.assets.images import ensure
from jobs.azure import job_records, submission
from jobs.azure.job_records import Job
from jobs.azure.results import artifact
from jobs.azure.workspace import Workspace, connect
from jobs.commands.follow import DETACHED, WatchOptions, follow, notes
from jobs.console import Console, command
from jobs.errors import AccessError, RequestError, UnreachableError
from jobs.following.cluster_check_result import verdict
from jobs.following.supervisor import Supervisor
from jobs.spec import from_options, summary
from jobs.spec.builder import Source
from jobs.spec.from_options import RunOptions
from jobs.spec.job_spec import JobSpec
from jobs.spec.kinds import VERDICT
from trainer.config import TrainConfig
from trainer.data.manifest import Manifest
from trainer.training.plan import Plan

POOR: int = 23
"""Exit status of a check that found something poor."""

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
    """Do not submit the run again when nodes of LowPriority were taken away."""

    dry_run: bool = False
    """Print the summary, and submit nothing."""


def run(
    options: SubmitOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit, and follow to the end."""
    console, workspace = Console(as_json=as_json), connect(outputs)
    manner = options.manner()
    config = from_options.read_config(options, program)
    attempt, source = from_options.first_attempt(options), from_options.read_source()
    # All that can be refused without asking anyone is refused before anyone is asked.
    spec = from_options.make_spec(outputs, options, config, attempt, source)
    try:
        if options.name is not None:
            attempt = submission.free_attempt(workspace, attempt)
            spec = from_options.make_spec(outputs, options, config, attempt, source)
        plan = show(console, workspace, spec, options, config)
        status = _before(console, workspace, options, spec, source)
    except KeyboardInterrupt:
        print("\ninterrupted; nothing was submitted", file=sys.stderr)
        return DETACHED
    if options.dry_run:
        console.answer(summary.document(spec, plan), "nothing was submitted")
    if status is not None:
        return status
    again = spec.cluster.priority == "LowPriority" and not options.no_supervise
    supervisor = Supervisor(workspace, console, manner, options.resubmit, again=again)
    status = carry_out(supervisor, spec, plan, no_follow=options.no_follow)
    if spec.kind == "check" and status == 0 and not options.no_follow:
        return _judge(console, workspace, spec)
    return status


def carry_out(supervisor: Supervisor, spec: JobSpec, plan: Plan | None, *, no_follow: bool) -> int:
    """Submit, and follow to the end unless a person does not want that."""
    job = hand_over(supervisor.console, supervisor.workspace, spec)
    if job is None:
        return DETACHED
    if no_follow:
        return leave(supervisor, spec, plan, job)
    return follow(supervisor, job)


def leave(supervisor: Supervisor, spec: JobSpec, plan: Plan | None, job: Job) -> int:
    """Say how to come back to a job that is not followed."""
    again = supervisor.again
    back = command("follow", job.run, *(["--supervise"] if again else []))
    supervisor.console.answer(
        {**summary.document(spec, plan), "page": job.page},
        "\n".join([*notes(job, again=again), f"`{back}` follows it"]),
    )
    return 0


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
    submission.look_up(workspace, spec)
    plan: Plan | None = None
    manifest: Manifest | None = None
    unknown: str | None = None
    if config is not None:
        if config.data.source == "tfrecords":
            try:
                manifest = prepared_data.manifest(workspace, options.data)
            except (AccessError, UnreachableError) as error:
                # Who submits need not be allowed to read the data, or near enough to do so.
                unknown = str(error).splitlines()[0]
        if manifest is not None or config.data.source != "tfrecords":
            plan = prepared_data.plan(config, spec.ranks, manifest)
    console.say(summary.lines(spec, plan, manifest, unknown))
    return plan


def hand_over(console: Console, workspace: Workspace, spec: JobSpec) -> Job | None:
    """Submit one job; none if a person has interrupted it."""
    try:
        job = submission.submit(workspace, spec, from_options.REPOSITORY)
        console.say(f"{job.name}: submitted" + (f", see {job.page}" if job.page else ""))
    except KeyboardInterrupt:
        # The request may be on its way.
        print("\ninterrupted; looking whether the job was submitted", file=sys.stderr)
        if _arrived(workspace, spec.name):
            said = f"{spec.name} was submitted already:"
        else:
            said = f"{spec.name} is not there, but a request on its way may still make it; then"
        print(
            f"{said}\n  {command('follow', spec.run)}    follows it\n"
            f"  {command('cancel', spec.run)}    ends it",
            file=sys.stderr,
        )
        return None
    return job


def _arrived(workspace: Workspace, name: str) -> bool:
    """Whether a job is there, or comes in the next seconds."""
    until = time.monotonic() + ARRIVAL_SECONDS
    while True:
        try:
            if job_records.job(workspace, name) is not None:
                return True
        except RequestError as error:
            print(f"cannot be seen: {error}", file=sys.stderr)
            return False
        if time.monotonic() >= until:
            return False
        time.sleep(0.5)


def _before(
    console: Console,
    workspace: Workspace,
    options: SubmitOptions,
    spec: JobSpec,
    source: Source,
) -> int | None:
    """What comes between the summary and the job; a status if there is to be no job."""
    if options.dry_run:
        return 0
    image = ensure(from_options.image_of(spec), workspace, from_options.REPOSITORY)
    console.say(f"image {image} is registered")
    if options.check_cluster and spec.kind in ("train", "benchmark"):
        return _check(console, workspace, options, spec, source)
    return None


def _check(
    console: Console,
    workspace: Workspace,
    options: SubmitOptions,
    training: JobSpec,
    source: Source,
) -> int | None:
    """Check the nodes first; the status to end with, or none if they are good."""
    # A run that goes on is checked again.
    attempt = submission.free_attempt(workspace, from_options.check_attempt(training.run))
    spec = from_options.check_spec(workspace.outputs, options, attempt, source)
    job = hand_over(console, workspace, spec)
    if job is None:
        return DETACHED
    manner = replace(options.manner(), ranks=lambda _: False)
    quiet = Console(as_json=True)
    try:
        outcome = Supervisor(workspace, quiet, manner, options.resubmit, again=True).follow(job)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; the check goes on (`{command('cancel', job.run)}` ends it), the"
            " training was not submitted",
            file=sys.stderr,
        )
        return DETACHED
    if outcome.exit_code:
        raise UserError(
            f"{outcome.job.name}: the check has not succeeded ({outcome.reason}); the training was"
            f" not submitted. `{command('logs', outcome.job.name, '--rank', 'all')}` shows its log"
        )
    found = verdict(artifact(workspace, outcome.job.name, VERDICT), spec.cluster)
    for line in found.lines:
        console.say(f"  {line}")
    if not found.good and not options.even_if_poor:
        console.note(
            "the check found something poor, so the training was not submitted; --even-if-poor"
            " submits it nevertheless"
        )
        return POOR
    return None


def _judge(console: Console, workspace: Workspace, spec: JobSpec) -> int:
    """Say what a check that a person asked for has found."""
    last = job_records.attempts(workspace, spec.run)[-1]
    found = verdict(artifact(workspace, last.name, VERDICT), spec.cluster)
    for line in found.lines:
        console.say(f"  {line}")
    console.say("good" if found.good else "something is poor")
    return 0 if found.good else POOR
