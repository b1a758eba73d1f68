"""`python -m jobs follow NAME`, and following for the commands that submit."""

import sys
from dataclasses import dataclass, field
from typing import Annotated

from common.errors import INTERRUPTED, UserError
from common.fields import Bounds, Formerly
from infra.outputs import PlatformOutputs
from jobs.assets.prepared_data import register_prepared
from jobs.azure.job_records import Job
from jobs.azure.results import TRAINING
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console, next_command
from jobs.errors import RequestError
from jobs.following.follower import (
    POLL_SECONDS,
    RETRY_TIMEOUT_SECONDS,
    FollowSettings,
    show_ranks,
)
from jobs.following.supervisor import RunResult, Supervisor
from jobs.options import ResubmitOptions

_UNATTENDED = (
    "if its nodes are pre-empted, it is submitted again only while someone follows it with"
    " --supervise"
)
_UNREGISTERED = "the data set that it writes is registered when `follow` sees the job's good end"


@dataclass(frozen=True)
class WatchOptions:
    """How a job is followed."""

    rank: str = "0"
    """Whose lines are shown: all, or numbers such as 0,8."""

    poll_seconds: Annotated[float, Bounds(above=0)] = POLL_SECONDS
    """Pause between two questions to Azure."""

    retry_timeout_minutes: Annotated[float, Bounds(above=0), Formerly("patience_minutes")] = (
        RETRY_TIMEOUT_SECONDS / 60
    )
    """Longest continuous outage of Azure to tolerate before following ends; the job is not
    touched."""

    def settings(self) -> FollowSettings:
        """As the follower takes them.

        Raises:
            UserError: the ranks are neither all nor numbers.
        """
        timeout = self.retry_timeout_minutes * 60
        settings = FollowSettings(poll_seconds=self.poll_seconds, retry_timeout_seconds=timeout)
        return show_ranks(settings, self.rank)


@dataclass(frozen=True)
class FollowOptions(WatchOptions):
    """Show what a job says and which states it goes through, until it has ended. NAME is the key of
    a run, and then its newest attempt, or the name of a job. Ctrl-C leaves the job running.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    supervise: bool = False
    """Submit the run again when its nodes were pre-empted, until it has trained to its end. Any
    number of people may do this at once, from any machine."""

    resubmit: ResubmitOptions = field(default_factory=ResubmitOptions)


def run(options: FollowOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Follow a run; the exit status is its truth."""
    if not options.name:
        raise UserError(f"follow: name a run or a job; `{next_command('list')}` shows them")
    console, workspace = Console(as_json=as_json), connect(outputs)
    settings = options.settings()
    try:
        job = workspace.jobs.find(options.name)
    except KeyboardInterrupt:
        return detached(options.name)
    supervisor = make_supervisor(
        workspace, outputs, console, settings, options.resubmit, resubmits=options.supervise
    )
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
    """Who follows a run of a workspace."""
    return Supervisor(
        workspace.jobs,
        workspace.manager,
        workspace.storage,
        outputs.clusters,
        console,
        settings,
        options,
        resubmits=resubmits,
    )


def follow(workspace: Workspace, supervisor: Supervisor, job: Job) -> RunResult | None:
    """Follow and tell how it ended; Ctrl-C leaves the job and says how to come back.

    Returns:
        None after Ctrl-C.
    """
    try:
        result = supervisor.follow(job)
    except KeyboardInterrupt:
        detached(job.run, supervisor, job)
        return None
    except RequestError as error:
        # Only following has ended.
        lines = [str(error), *_left(supervisor, job), f"`{_back(supervisor, job)}` goes on with it"]
        raise type(error)("\n".join(lines), error.status) from error
    try:
        data_set = _register_prepared(workspace, result)
    except KeyboardInterrupt:
        detached(job.run, supervisor, job)
        return None
    except UserError:
        again = f"`{_back(supervisor, job)}` tries again"
        supervisor.console.note(f"{result.job.name}: completed, but not registered; {again}")
        raise
    _tell_end(supervisor.console, result, data_set)
    return result


def notes(job: Job, *, resubmits: bool) -> list[str]:
    """What a person has to know who does not follow a job.

    Args:
        job: runs, or will.
        resubmits: whether it would be submitted again if it were followed.
    """
    prepares = job.kind == "prepare"
    return [*([_UNATTENDED] if resubmits else []), *([_UNREGISTERED] if prepares else [])]


def detached(name: str, supervisor: Supervisor | None = None, job: Job | None = None) -> int:
    """Say how to come back to a job that is no longer followed.

    Args:
        name: of the run or the job.
        supervisor: has followed it.
        job: an attempt of the run, as far as it is known.

    Returns:
        Exit status.
    """
    known = supervisor is not None and job is not None
    left = _left(supervisor, job) if supervisor and job else ["what Azure runs goes on"]
    back = _back(supervisor, job) if supervisor and job else next_command("follow", name)
    words = "goes on with it" if known else "follows it again"
    lines = ["\nno longer followed", *left, f"  {back}    {words}"]
    print(*lines, f"  {next_command('cancel', name)}    ends it", sep="\n", file=sys.stderr)
    return INTERRUPTED


def _tell_end(console: Console, result: RunResult, data_set: str | None) -> None:
    """Tell how it ended, and what comes next.

    Args:
        console: where.
        result: the end.
        data_set: that was registered by it.
    """
    job = result.job
    lines = [f"{job.name}: {result.reason}"]
    document = result.document()
    if data_set is not None:
        document["asset"] = data_set
        lines.append(f"registered: a training reads it by --data.asset {data_set}")
    elif result.exit_code == 0 and job.kind in TRAINING:
        lines.append(f"`{next_command('download', job.run)}` fetches what it leaves")
    elif result.exit_code and job.page:
        lines.append(f"its page: {job.page}")
    console.answer(document, "\n".join(lines))


def _left(supervisor: Supervisor, job: Job) -> list[str]:
    """What becomes of a run that is no longer followed from here."""
    if supervisor.waiting:
        return [
            f"{job.run}: its last attempt has ended; nothing of it goes on by itself, and from here"
            " nobody submits it again"
        ]
    return ["what Azure runs goes on", *notes(job, resubmits=supervisor.resubmits)]


def _back(supervisor: Supervisor, job: Job) -> str:
    supervise = ["--supervise"] if supervisor.resubmits or supervisor.waiting else []
    return next_command("follow", job.run, *supervise)


def _register_prepared(workspace: Workspace, result: RunResult) -> str | None:
    """Register what a preparation has written; None if it was none, or has not ended well."""
    job = result.job
    folder = job.tags.get("data")
    if result.exit_code or job.kind != "prepare" or folder is None:
        return None
    return register_prepared(workspace.manager, workspace.storage, folder).reference
