"""`python -m jobs follow NAME`, also used by the commands that submit jobs."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from common.annotations import Bounds, Formerly, Positional
from common.errors import INTERRUPTED, UserError
from common.prices import Cost, total
from common.program import load
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure import costs
from jobs.azure.costs import JobCosts
from jobs.azure.job_records import Job
from jobs.azure.workspace import Workspace, connect
from jobs.console import SHOWN, Console, next_command
from jobs.errors import FateUnknownError, MissingError, RequestError, UnreachableError
from jobs.following.follower import (
    POLL_SECONDS,
    RETRY_TIMEOUT_SECONDS,
    FollowSettings,
    show_ranks,
)
from jobs.following.notices import Notifier, configured_webhook
from jobs.following.supervision_policy import marked_options
from jobs.following.supervisor import RunResult, Supervisor
from jobs.job_kinds import KINDS, trains
from jobs.leaf import OutputEntry
from jobs.options import ResubmitOptions
from jobs.spec.tags import SUPERVISE

_UNATTENDED = (
    "if its nodes are pre-empted, the run is submitted again only by a supervisor:"
    " `follow --supervise`, or `supervise` for all runs of the workspace"
)
_CONTINUES = "the job continues in Azure"


@dataclass(frozen=True)
class WatchOptions:
    """How a job is followed."""

    rank: str = "0"
    """Ranks whose output is shown: all, or numbers such as 0,8."""

    poll_seconds: Annotated[float, Bounds(above=0)] = POLL_SECONDS
    """Pause between two requests to Azure, in seconds; at most 15 while a run is supervised, as the
    nodes tell a pre-emption only within a minute."""

    retry_timeout_minutes: Annotated[float, Bounds(above=0), Formerly("patience_minutes")] = (
        RETRY_TIMEOUT_SECONDS / 60
    )
    """Longest continuous outage of Azure to tolerate, in minutes; then this command ends, and the
    job is not affected."""

    def check(self, program: tuple[str, ...]) -> None:  # noqa: ARG002
        """Check that --rank names ranks."""
        self.settings()

    def settings(self) -> FollowSettings:
        """Return these options as settings of the follower.

        Raises:
            ConfigError: `rank` is neither "all" nor numbers.
        """
        timeout = self.retry_timeout_minutes * 60
        settings = FollowSettings(poll_seconds=self.poll_seconds, retry_timeout_seconds=timeout)
        return show_ranks(settings, self.rank)


@dataclass(frozen=True)
class FollowOptions(WatchOptions):
    """Show the output and the state of a job until it ends. NAME is the key of a run, which stands
    for its newest attempt, or the name of a job. Ctrl-C leaves the job running.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of the job."""

    supervise: bool = False
    """Submit the run again if its nodes are pre-empted, until it completes. Several people may do
    this at once, from any machine. The --resubmit options of its submission hold, unless some
    of this command differ from their defaults."""

    resubmit: ResubmitOptions = field(default_factory=ResubmitOptions)


def run(options: FollowOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Follow a run to its end, and return the exit status that tells how it ended."""
    console, workspace = Console(as_json=as_json), connect(outputs)
    settings = options.settings()
    supervisor = make_supervisor(
        workspace, outputs, console, settings, options.resubmit, resubmits=options.supervise
    )
    try:
        job = supervisor.retry.call(lambda: workspace.jobs.find(options.name))
    except KeyboardInterrupt:
        return detached(options.name)
    if options.supervise and options.resubmit == ResubmitOptions() and SUPERVISE in job.tags:
        supervisor.options = marked_options(job.tags)
    result = follow(workspace, supervisor, job)
    return INTERRUPTED if result is None else result.exit_code


def make_supervisor(
    workspace: Workspace,
    outputs: PlatformOutputs,
    console: Console,
    settings: FollowSettings,
    options: ResubmitOptions,
    *,
    resubmits: bool,
) -> Supervisor:
    """Create a supervisor for a run in a workspace, which sends notices if there is a webhook.

    Raises:
        UserError: The webhook that the environment names is invalid or cannot be read.
    """
    webhook = configured_webhook(workspace.requests)
    notifier = Notifier(workspace.jobs, webhook, outputs.stack, console) if webhook else None
    return Supervisor(workspace, outputs.clusters, console, settings, options, resubmits, notifier)


def follow(workspace: Workspace, supervisor: Supervisor, job: Job) -> RunResult | None:
    """Follow a run and print how it ended. Ctrl-C leaves the job running and prints how to return.

    Returns:
        Result of the run, or None after Ctrl-C.
    """
    try:
        result = supervisor.follow(job)
    except KeyboardInterrupt:
        detached(job.run, supervisor, job)
        return None
    except RequestError as error:
        # Only following has failed, not the job.
        refused = supervisor.waiting and not isinstance(error, UnreachableError)
        known = refused or isinstance(error, MissingError)
        left = _left(supervisor, job)
        if not known:
            left[0] = f"how {job.run} ends is unknown; {left[0]}"
        lines = [str(error), *left, f"`{_back(supervisor, job)}` resumes this"]
        kind = type(error) if known else FateUnknownError
        raise kind("\n".join(lines), error.status) from error
    try:
        entry = _finish(workspace, result)
        cost = JobCosts(workspace.jobs, workspace.manager, supervisor.clusters).of_run(result.job)
    except KeyboardInterrupt:
        detached(job.run, supervisor, job)
        return None
    except UserError:
        again = f"`{_back(supervisor, job)}` tries again"
        supervisor.console.note(f"{result.job.name}: completed, but not registered; {again}")
        raise
    _tell_end(supervisor.console, result, entry, cost)
    return result


def notes(job: Job, *, resubmits: bool) -> list[str]:
    """Return what does not happen while no command follows a job."""
    kind = KINDS.get(job.kind)
    owed = [kind.unfollowed] if kind and kind.unfollowed else []
    return [*([_UNATTENDED] if resubmits else []), *owed]


def detached(name: str, supervisor: Supervisor | None = None, job: Job | None = None) -> int:
    """Print how to return to a job that is no longer followed.

    Returns:
        Exit status.
    """
    left, back, words = [_CONTINUES], next_command("follow", name), "follows it again"
    if supervisor is not None and job is not None:
        left, back, words = _left(supervisor, job), _back(supervisor, job), "resumes this"
    lines = ["\nno longer following", *left, f"  {back}    {words}"]
    print(*lines, f"  {next_command('cancel', name)}    cancels it", sep="\n", file=sys.stderr)
    return INTERRUPTED


def _tell_end(
    console: Console, result: RunResult, entry: OutputEntry | None, cost: Sequence[Cost]
) -> None:
    """Print how a run ended, and what to do next."""
    job = result.job
    time, amount = costs.words(cost)
    lines = [
        f"{job.name}: {result.reason}",
        f"cost of {job.run}: {amount} in {plural(len(cost), 'attempt')}, node time {time}",
        f"  {costs.LEFT_OUT}",
    ]
    document = {**result.document(), "cost": costs.document(total(cost))}
    if entry is not None:
        document[entry.key] = entry.value
        lines += entry.lines
    elif result.exit_code == 0 and trains(job.kind):
        lines.append(f"`{next_command('download', job.run)}` downloads its results")
    elif result.exit_code and job.page:
        lines.append(f"job page: {job.page}")
    console.answer(document, "\n".join(lines))


def _left(supervisor: Supervisor, job: Job) -> list[str]:
    """Return what happens to a run that is no longer followed by this command."""
    if supervisor.waiting:
        return [
            f"{job.run}: its last attempt has ended, and this command does not submit it again any"
            " more"
        ]
    return [_CONTINUES, *notes(job, resubmits=supervisor.resubmits)]


def _back(supervisor: Supervisor, job: Job) -> str:
    supervise = ["--supervise"] if supervisor.resubmits or supervisor.waiting else []
    return next_command("follow", job.run, *supervise)


def _finish(workspace: Workspace, result: RunResult) -> OutputEntry | None:
    """Do what follows a completed job of its kind, such as registering a data set."""
    kind = KINDS.get(result.job.kind)
    if result.exit_code or kind is None or kind.completed is None:
        return None
    entry: OutputEntry = load(kind.completed)(workspace, result.job)
    return entry
