"""`python -m jobs cancel NAME`: cancel a run and make sure that it is not submitted again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from common.annotations import Bounds, Positional
from common.errors import INTERRUPTED
from common.waiting import wait_until
from infra.outputs import PlatformOutputs
from jobs.azure.job_body import tagged_body
from jobs.azure.job_records import CANCELED_BY, ENDED, Job, Jobs
from jobs.azure.workspace import connect
from jobs.console import SHOWN, Console, next_command
from jobs.errors import RequestError

ARRIVAL_SECONDS = 3.0
"""Seconds in which an attempt may still appear that was submitted just before the run was marked as
cancelled."""
POLL_SECONDS = 1.0
"""Seconds between two checks whether a cancelled job has ended."""


@dataclass(frozen=True)
class CancelOptions:
    """Cancel a run: its job is cancelled, and commands that supervise it stop. Its checkpoints are
    kept. NAME is the key of a run, or the name of one of its jobs, which stands for the whole run.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of one of its jobs."""

    wait_minutes: Annotated[float, Bounds(at_least=0)] = 10.0
    """Longest time to wait for the job to end, in minutes; 0 does not wait."""


@dataclass
class _Progress:
    """The steps that are done about a run, for a user who interrupts the command."""

    job: Job | None = None
    marked: bool | None = False
    """Whether the run is marked as cancelled; None if that is unknown."""
    requested: bool | None = False
    """Whether the cancellation of the job was requested; None if that is unknown."""


def run(options: CancelOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Cancel a run, and wait until none of its jobs runs."""
    console, jobs, progress = Console(as_json=as_json), connect(outputs).jobs, _Progress()
    try:
        job, before, marked = _cancel_run(console, jobs, options, progress)
    except KeyboardInterrupt:
        console.note(f"\ninterrupted; {_interrupted_words(options.name, progress)}")
        return INTERRUPTED
    document = {
        "run": job.run,
        "job": job.name,
        "before": before,
        "status": job.status,
        "marked": marked,
    }
    if before == job.status:
        after = (
            "the run will not be submitted again"
            if marked
            else "the run could not be marked as cancelled"
        )
        text = f"{job.name}: had already ended ({before}); {after}"
    elif job.ended:
        text = f"{job.name}: {job.status}"
    else:
        text = f"{job.name}: is being cancelled ({job.status})"
    console.answer(document, text)
    return 0


def _cancel_run(
    console: Console, jobs: Jobs, options: CancelOptions, progress: _Progress
) -> tuple[Job, str, bool]:
    """Cancel the newest attempt of a run, and those that are submitted meanwhile.

    Returns:
        The last attempt, its state before, and whether the run is marked.
    """
    job = _newest(jobs, jobs.find(options.name))
    while True:
        before = job.status
        progress.job, progress.marked, progress.requested = job, None, False
        # First, so that no supervisor submits the run again between its end and the mark.
        marked = progress.marked = _mark(console, jobs, job)
        if not job.ended:
            job = progress.job = _end(jobs, job, options.wait_minutes * 60, progress)
        following = _following(jobs, job, before)
        if following is None:
            return job, before, marked
        console.note(f"{following.name}: was submitted in the meantime")
        job = following


def _interrupted_words(name: str, progress: _Progress) -> str:
    """Say what was done about a run, and what may still cost money."""
    again = f"`{next_command('cancel', name)}` continues"
    job = progress.job
    if job is None:
        return f"{name}: nothing was changed; {again}"
    marked = {
        True: "the run is marked as cancelled, so it will not be submitted again",
        False: "the run is not marked as cancelled, so a command that supervises it may submit it"
        " again",
        None: "it is unknown whether the run is marked as cancelled",
    }[progress.marked]
    if job.ended:
        return f"{job.name}: {marked}; {again}"
    requested = {
        True: "its cancellation was requested",
        False: "its cancellation was not requested",
        None: "it is unknown whether its cancellation was requested",
    }[progress.requested]
    return (
        f"{job.name}: {marked}; {requested}. The job may still run and cost money until"
        f" `{next_command('status')}` shows its end; {again}"
    )


def _newest(jobs: Jobs, job: Job) -> Job:
    """Return the newest attempt of a job's run: cancelling an earlier one has no effect."""
    attempts = jobs.attempts(job.run) if job.attempt else ()
    return attempts[-1] if attempts else job


def _following(jobs: Jobs, job: Job, before: str) -> Job | None:
    """Return an attempt that a supervisor submitted before it could see the mark, or None."""
    if job.attempt is None:
        return None
    # A job that ran when it was marked has no next one: supervisors check the mark first.
    seconds = ARRIVAL_SECONDS if before in ENDED else 0.0

    def newer() -> Job | None:
        newest = _newest(jobs, job)
        return newest if newest.name != job.name else None

    return wait_until(newer, seconds, 0.5)


def _mark(console: Console, jobs: Jobs, job: Job) -> bool:
    """Mark the run as cancelled by a user, for its supervisors; return whether the mark is set."""
    if job.canceled_by_us or job.attempt is None:
        return True
    tags = {CANCELED_BY: jobs.user() or "unknown"}
    try:
        jobs.tag(job, tags)
        if _is_marked(jobs, job):
            return True
        why = "Azure accepted the mark, but does not return it"
    except RequestError as error:
        why = str(error).splitlines()[0]
    return _mark_by_body(console, jobs, job, tags, why)


def _mark_by_body(
    console: Console, jobs: Jobs, job: Job, tags: Mapping[str, str], why: str
) -> bool:
    """Mark the run as Azure documents it: a PUT of an existing job replaces all tags."""
    try:
        jobs.put(job.name, tagged_body(jobs.get(job.name) or job, tags))
        if _is_marked(jobs, job):
            return True
    except RequestError as error:
        why = str(error).splitlines()[0]
    console.note(
        f"{job.name}: could not be marked as cancelled ({why}); a `follow --supervise` with"
        " --resubmit.canceled True may submit the run again, so end that as well"
    )
    return False


def _is_marked(jobs: Jobs, job: Job) -> bool:
    now = jobs.get(job.name)
    return now is not None and now.canceled_by_us


def _end(jobs: Jobs, job: Job, seconds: float, progress: _Progress) -> Job:
    try:
        return _cancel(jobs, job, seconds, progress)
    except RequestError as error:
        if not progress.marked or job.attempt is None:
            raise
        raise type(error)(
            f"{error}\n{job.name}: was not cancelled and may still run; it is marked, so it"
            f" will not be submitted again. `{next_command('cancel', job.run)}` tries again",
            error.status,
        ) from error


def _cancel(jobs: Jobs, job: Job, seconds: float, progress: _Progress) -> Job:
    progress.requested = None
    try:
        jobs.cancel(job.name)
        progress.requested = True
    except RequestError:
        now = jobs.get(job.name)
        if now is None or not now.ended:
            raise
        # The job ended before the request arrived.
        return now

    def ended() -> bool:
        nonlocal job
        job = jobs.get(job.name) or job
        return job.ended

    wait_until(ended, seconds, POLL_SECONDS)
    return job
