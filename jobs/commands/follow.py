"""`python -m jobs follow NAME`."""

import sys
from dataclasses import dataclass, field
from typing import Annotated

from common.errors import UserError
from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.assets.prepared_data import register_prepared
from jobs.azure.job_records import Job, find
from jobs.azure.results import TRAINING
from jobs.azure.workspace import Workspace, connect
from jobs.console import Console, command
from jobs.errors import RequestError
from jobs.following.follower import PATIENCE_SECONDS, POLL_SECONDS, Manner, ranks_manner
from jobs.following.supervisor import Outcome, Supervisor
from jobs.options import ResubmitOptions

DETACHED = 130

_UNATTENDED = (
    "if its nodes are taken away, it is submitted again only while someone follows it with"
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

    patience_minutes: Annotated[float, Bounds(above=0)] = PATIENCE_SECONDS / 60
    """That Azure may be out of reach in one piece before following ends; the job is not touched."""

    def manner(self) -> Manner:
        """As the follower takes it."""
        manner = Manner(poll_seconds=self.poll_seconds, patience_seconds=self.patience_minutes * 60)
        return ranks_manner(self.rank, manner)


@dataclass(frozen=True)
class FollowOptions(WatchOptions):
    """Show what a job says and which states it goes through, until it has ended. NAME is the key of
    a run, and then its newest attempt, or the name of a job. Ctrl-C leaves the job running.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    supervise: bool = False
    """Submit the run again when its nodes were taken away, until it has trained to its end. Any
    number of people may do this at once, from any machine."""

    resubmit: ResubmitOptions = field(default_factory=ResubmitOptions)


def run(options: FollowOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Follow a run; the exit status is its truth."""
    if not options.name:
        raise UserError(f"follow: name a run or a job; `{command('list')}` shows them")
    console, workspace = Console(as_json=as_json), connect(outputs)
    manner = options.manner()
    try:
        job = find(workspace, options.name)
    except KeyboardInterrupt:
        return detached(options.name)
    return follow(
        Supervisor(workspace, console, manner, options.resubmit, again=options.supervise), job
    )


def follow(supervisor: Supervisor, job: Job) -> int:
    """Follow and tell how it ended; Ctrl-C leaves the job and says how to come back."""
    try:
        outcome = supervisor.follow(job)
    except KeyboardInterrupt:
        return detached(job.run, supervisor, job)
    except RequestError as error:
        # Only following has ended.
        lines = [str(error), *_left(supervisor, job), f"`{_back(supervisor, job)}` goes on with it"]
        raise type(error)("\n".join(lines), error.status) from error
    try:
        asset = _registered(supervisor.workspace, outcome)
    except KeyboardInterrupt:
        return detached(job.run, supervisor, job)
    except UserError:
        again = f"`{_back(supervisor, job)}` tries again"
        supervisor.console.note(f"{outcome.job.name}: completed, but not registered; {again}")
        raise
    finish(supervisor.console, outcome, asset)
    return outcome.exit_code


def finish(console: Console, outcome: Outcome, asset: str | None) -> None:
    """Tell how it ended, and what comes next.

    Args:
        console: where.
        outcome: the end.
        asset: the data set that was registered by it.
    """
    job = outcome.job
    lines = [f"{job.name}: {outcome.reason}"]
    document = outcome.document()
    if asset is not None:
        document["asset"] = asset
        lines.append(f"registered: a training reads it by --data.asset {asset}")
    elif outcome.exit_code == 0 and job.kind in TRAINING:
        lines.append(f"`{command('download', job.run)}` fetches what it leaves")
    elif outcome.exit_code and job.page:
        lines.append(f"its page: {job.page}")
    console.answer(document, "\n".join(lines))


def notes(job: Job, *, again: bool) -> list[str]:
    """What a person has to know who does not follow a job.

    Args:
        job: runs, or will.
        again: whether it would be submitted again if it were followed.
    """
    prepares = job.kind == "prepare"
    return [*([_UNATTENDED] if again else []), *([_UNREGISTERED] if prepares else [])]


def detached(name: str, supervisor: Supervisor | None = None, job: Job | None = None) -> int:
    """Say how to come back to a job that is no longer followed.

    Args:
        name: of the run or the job.
        supervisor: has followed it.
        job: an attempt of the run, as far as it is known.
    """
    known = supervisor is not None and job is not None
    left = _left(supervisor, job) if supervisor and job else ["what Azure runs goes on"]
    back = _back(supervisor, job) if supervisor and job else command("follow", name)
    words = "goes on with it" if known else "follows it again"
    lines = ["\nno longer followed", *left, f"  {back}    {words}"]
    print(*lines, f"  {command('cancel', name)}    ends it", sep="\n", file=sys.stderr)
    return DETACHED


def _left(supervisor: Supervisor, job: Job) -> list[str]:
    """What becomes of a run that is no longer followed from here."""
    if supervisor.waiting:
        return [
            f"{job.run}: its last attempt has ended; nothing of it goes on by itself, and from here"
            " nobody submits it again"
        ]
    return ["what Azure runs goes on", *notes(job, again=supervisor.again)]


def _back(supervisor: Supervisor, job: Job) -> str:
    supervise = ["--supervise"] if supervisor.again or supervisor.waiting else []
    return command("follow", job.run, *supervise)


def _registered(workspace: Workspace, outcome: Outcome) -> str | None:
    """Register what a preparation has written; none if it was none, or has not ended well."""
    job = outcome.job
    folder = job.tags.get("data")
    if outcome.exit_code or job.kind != "prepare" or folder is None:
        return None
    return register_prepared(workspace, folder).reference
