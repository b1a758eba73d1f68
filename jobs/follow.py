"""`python -m jobs follow NAME`."""

import sys
from dataclasses import dataclass, field
from typing import Annotated

from infra.outputs import PlatformOutputs
from jobs.attempts import find
from jobs.azure import Workspace, connect
from jobs.console import Console
from jobs.errors import JobsError, RequestError
from jobs.follower import PATIENCE_SECONDS, POLL_SECONDS, Manner, ranks_manner
from jobs.history import Job
from jobs.options import ResubmitOptions
from jobs.results import TRAINING
from jobs.supervisor import Outcome, Supervisor
from trainer.fields import Bounds

DETACHED = 130


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
        raise JobsError("follow: name a run or a job; `python -m jobs list` shows them")
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
        return detached(job.run)
    except RequestError as error:
        # Only following has ended.
        again = f"`python -m jobs follow {job.run}` follows the run again, which goes on by itself"
        raise type(error)(f"{error}\n{again}", error.status) from error
    finish(supervisor.console, outcome, supervisor.workspace)
    return outcome.exit_code


def finish(console: Console, outcome: Outcome, workspace: Workspace) -> None:
    """Tell how it ended, and what comes next."""
    job = outcome.job
    lines = [f"{job.name}: {outcome.reason}"]
    if outcome.exit_code == 0 and job.kind in TRAINING:
        stack = "" if workspace.outputs.stack == "dev" else f" --stack {workspace.outputs.stack}"
        lines.append(f"`python -m jobs download {job.run}{stack}` fetches what it leaves")
    elif outcome.exit_code and job.page:
        lines.append(f"its page: {job.page}")
    console.answer(outcome.document(), "\n".join(lines))


def detached(name: str) -> int:
    """Say how to come back to a job that is no longer followed."""
    print(
        f"\nno longer followed; what Azure runs goes on.\n"
        f"  python -m jobs follow {name}    follows it again\n"
        f"  python -m jobs cancel {name}    ends it",
        file=sys.stderr,
    )
    return DETACHED
