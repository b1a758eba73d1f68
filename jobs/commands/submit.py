"""`python -m jobs submit`: from the options to the end of a run, in the order of its steps."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from common.errors import INTERRUPTED, UserError
from common.program import load
from infra.outputs import PlatformOutputs
from jobs.assets import prepared_data
from jobs.azure import submission
from jobs.azure.workspace import connect
from jobs.commands import launch
from jobs.commands.launch import LaunchOptions, Need, carry_out, register_image
from jobs.commands.runs.budget import BudgetOptions, within_budget
from jobs.console import Console, next_command
from jobs.errors import AccessError, SignInError, UnreachableError
from jobs.exit_status import POOR_CLUSTER
from jobs.following.supervisor import Supervisor
from jobs.leaves import LEAVES, SubmitLeaves
from jobs.spec import from_options, summary
from jobs.spec.from_options import RunOptions
from jobs.spec.job_spec import JobSpec
from jobs.spec.run_key import RunAttempt
from trainer.config import TrainConfig
from trainer.data.manifest import Manifest
from trainer.training.plan import Plan


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


Draft: TypeAlias = launch.Draft[SubmitOptions]


def run(
    options: SubmitOptions, outputs: PlatformOutputs, *, as_json: bool, program: tuple[str, ...]
) -> int:
    """Submit a job and follow it to its end.

    The draft of the job is built without a request. Then `NEEDS` are checked, before anything costs
    money; the image is registered, the cluster is checked if that is wanted, and the job is
    submitted and followed.

    Returns:
        Exit status.

    Raises:
        UserError: The options are wrong, a need is not met, or a request failed.
    """
    draft = read_draft(options, outputs, program, Console(as_json=as_json))
    if options.dry_run:
        return show_draft(draft)
    try:
        draft = launch.with_needs(draft, NEEDS)
        register_image(draft.console, draft.workspace, draft.spec, draft.software)
        status = check_cluster(draft) if options.check_cluster else None
    except KeyboardInterrupt:
        return launch.nothing_submitted()
    return carry_out(draft) if status is None else status


def read_draft(
    options: SubmitOptions, outputs: PlatformOutputs, program: tuple[str, ...], console: Console
) -> Draft:
    """Build a job from the options, without a request.

    Raises:
        UserError: The job could not run with these options.
    """
    options.settings()
    options = from_options.with_own_key(options, Path.home())
    config = from_options.read_config(options, program)
    software = from_options.read_software(config)
    attempt = from_options.first_attempt(options)
    spec = from_options.make_spec(outputs, options, config, attempt, software.versions)

    def build(cluster: str, nodes: int, config: TrainConfig) -> JobSpec:
        elsewhere = replace(options, cluster=cluster, nodes=nodes)
        return from_options.make_spec(outputs, elsewhere, config, attempt, software.versions)

    key = next(key for key, cluster in outputs.clusters.items() if cluster == spec.cluster)
    further = []
    for placement in (leaf.placement for leaf in LEAVES if leaf.placement):
        spec, specs = load(placement.offer)(options, spec, config, key, build)
        if specs:
            further.append((placement, specs))
    lasting = spec.cluster.priority != "LowPriority" and not further
    return Draft(
        options,
        outputs,
        connect(outputs),
        console,
        software,
        spec,
        not lasting and not options.no_supervise,
        config,
        further=further,
    )


def budget(draft: Draft) -> Draft:
    """Check that the budget lasts for an attempt, and limit the job to it."""
    clusters, options = draft.outputs.clusters, draft.options
    spec = within_budget(draft.workspace, clusters, draft.spec, draft.config, options)
    return replace(draft, spec=spec)


def cluster_and_data(draft: Draft) -> Draft:
    """Check the cluster and the data that a job refers to, and print its summary."""
    workspace, spec, config = draft.workspace, draft.spec, draft.config
    uris = submission.look_up(workspace.manager, spec)
    plan: Plan | None = None
    manifest: Manifest | None = None
    unknown: str | None = None
    if config is not None:
        if config.data.source == "tfrecords":
            try:
                data = draft.options.data
                uri = uris.get(data.asset or "")
                manifest = prepared_data.read_manifest(workspace.storage, data, uri)
            except (AccessError, UnreachableError) as error:
                # The user may lack the role, or the network, to read the data.
                unknown = str(error).splitlines()[0]
        if manifest is not None or config.data.source != "tfrecords":
            plan = prepared_data.plan(config, spec.ranks, manifest)
    draft.console.say(summary.lines(spec, plan, manifest, unknown))
    return replace(draft, plan=plan)


def further_jobs(draft: Draft) -> Draft:
    """Check the jobs that the run may continue as elsewhere, and print them."""
    manager, spec, config = draft.workspace.manager, draft.spec, draft.config
    for placement, specs in draft.further:
        for line in load(placement.check)(manager, spec, specs, config):
            draft.console.say(f"  {line}")
    return draft


NEEDS: Final[tuple[Need[SubmitOptions], ...]] = (
    launch.with_free_attempt,
    budget,
    cluster_and_data,
    further_jobs,
)
"""The needs of a run, in the order in which they are checked before anything costs money. Options
and spec were checked before, without a request (`read_draft`). `preflight` asks about quota and
access, which Azure judges again when the nodes start."""


def show_draft(draft: Draft) -> int:
    """Check the needs of a job, or show it without them if there is no sign-in; submit nothing."""
    try:
        draft = launch.with_needs(draft, NEEDS)
    except SignInError as error:
        config, plan = draft.config, None
        if config is not None and config.data.source != "tfrecords":
            plan = prepared_data.plan(config, draft.spec.ranks, None)
            draft = replace(draft, plan=plan)
        unknown = "no sign-in to Azure" if config else None
        draft.console.say(summary.lines(draft.spec, plan, None, unknown))
        reason = str(error).splitlines()[0]
        draft.console.note(
            f"note: {reason}; the cluster, the data set and the budget were not looked up"
        )
    draft.console.answer(summary.document(draft.spec, draft.plan), "nothing was submitted")
    return 0


def check_cluster(draft: Draft) -> int | None:
    """Run the cluster check before a job; return the exit status to end with, or None if the check
    passed.
    """
    outputs, workspace, console = draft.outputs, draft.workspace, draft.console
    options, software = draft.options, draft.software
    if draft.spec.kind not in ("train", "benchmark"):
        return None
    # A run that is resumed is checked again.
    attempt = RunAttempt(f"{draft.spec.run}-check")
    attempt = submission.free_attempt(workspace.jobs, attempt)
    spec = from_options.check_spec(outputs, options, attempt, software.versions)
    retry = options.settings().retry(console)
    job = launch.hand_over(console, workspace, spec, software, retry)
    if job is None:
        return INTERRUPTED
    settings = replace(options.settings(), ranks=lambda _: False)
    quiet = Console(as_json=True)
    supervisor = Supervisor(
        workspace, outputs.clusters, quiet, settings, options.resubmit, resubmits=True
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
    measured = launch.read_check(console, workspace, result.job, spec)
    if not measured.good and not options.even_if_poor:
        console.note(
            "the cluster check found a problem, so the training was not submitted; --even-if-poor"
            " submits it anyway"
        )
        return POOR_CLUSTER
    return None
