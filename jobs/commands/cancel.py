"""`python -m jobs cancel NAME`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from common.errors import UserError
from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.azure.job_body import tagged_body
from jobs.azure.job_records import CANCELED_BY, ENDED, Job, Jobs
from jobs.azure.workspace import connect
from jobs.console import Console, next_command
from jobs.errors import RequestError

ARRIVAL_SECONDS = 3.0
"""That a further attempt may take to appear, which was submitted just before the mark."""


@dataclass(frozen=True)
class CancelOptions:
    """End a run: its job is cancelled, and whoever supervises it stops. Its checkpoints stay. NAME
    is the key of a run or the name of one of its jobs, which stands for the whole run.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    wait_minutes: Annotated[float, Bounds(at_least=0)] = 10.0
    """To wait for its end; 0 is not at all."""


def run(options: CancelOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Cancel a run, and wait until nothing of it runs."""
    if not options.name:
        raise UserError(f"cancel: name a run or a job; `{next_command('list')}` shows them")
    console, jobs = Console(as_json=as_json), connect(outputs).jobs
    job = _newest(jobs, jobs.find(options.name))
    while True:
        before = job.status
        # First of all, so that nobody submits it again between its end and the mark.
        marked = _mark(console, jobs, job)
        if not job.ended:
            job = _end(jobs, job, options.wait_minutes * 60, marked=marked)
        following = _following(jobs, job, before)
        if following is None:
            break
        console.note(f"{following.name}: was submitted meanwhile")
        job = following
    document = {
        "run": job.run,
        "job": job.name,
        "before": before,
        "status": job.status,
        "marked": marked,
    }
    if before == job.status:
        after = "nobody will submit the run again" if marked else "it could not be marked"
        text = f"{job.name}: had ended already ({before}); {after}"
    elif job.ended:
        text = f"{job.name}: {job.status}"
    else:
        text = f"{job.name}: is being cancelled ({job.status})"
    console.answer(document, text)
    return 0


def _newest(jobs: Jobs, job: Job) -> Job:
    """The newest attempt of a job's run: cancelling an earlier one would end nothing."""
    attempts = jobs.attempts(job.run) if job.attempt else ()
    return attempts[-1] if attempts else job


def _following(jobs: Jobs, job: Job, before: str) -> Job | None:
    """An attempt that someone who supervises has submitted between our look and our mark."""
    if job.attempt is None:
        return None
    # A job that ran when it was marked has no next one: who supervises looks at the mark first.
    until = time.monotonic() + (ARRIVAL_SECONDS if before in ENDED else 0.0)
    while True:
        newest = _newest(jobs, job)
        if newest.name != job.name:
            return newest
        if time.monotonic() >= until:
            return None
        time.sleep(0.5)


def _mark(console: Console, jobs: Jobs, job: Job) -> bool:
    """Tell all who supervise the run that a person has ended it; whether they can see it."""
    if job.canceled_by_us or job.attempt is None:
        return True
    tags = {CANCELED_BY: jobs.user() or "unknown"}
    try:
        jobs.tag(job, tags)
        if _is_marked(jobs, job):
            return True
        why = "its mark is not there"
    except RequestError as error:
        why = str(error).splitlines()[0]
    return _mark_by_body(console, jobs, job, tags, why)


def _mark_by_body(
    console: Console, jobs: Jobs, job: Job, tags: Mapping[str, str], why: str
) -> bool:
    """The way that Azure documents: of a job that is there, a PUT changes the tags and no more."""
    try:
        jobs.put(job.name, tagged_body(job, tags))
        if _is_marked(jobs, job):
            return True
    except RequestError as error:
        why = str(error).splitlines()[0]
    console.note(
        f"{job.name}: could not be marked ({why}); who follows it with --resubmit.canceled True may"
        " submit it again, so end that as well"
    )
    return False


def _is_marked(jobs: Jobs, job: Job) -> bool:
    now = jobs.get(job.name)
    return now is not None and now.canceled_by_us


def _end(jobs: Jobs, job: Job, seconds: float, *, marked: bool) -> Job:
    try:
        return _cancel(jobs, job, seconds)
    except RequestError as error:
        if not marked or job.attempt is None:
            raise
        raise type(error)(
            f"{error}\n{job.name}: was not cancelled and may run on; it is marked, so nobody will"
            f" submit it again. `{next_command('cancel', job.run)}` tries again",
            error.status,
        ) from error


def _cancel(jobs: Jobs, job: Job, seconds: float) -> Job:
    try:
        jobs.cancel(job.name)
    except RequestError:
        now = jobs.get(job.name)
        if now is None or not now.ended:
            raise
        # It was faster.
        return now
    return _wait(jobs, job, seconds)


def _wait(jobs: Jobs, job: Job, seconds: float) -> Job:
    until = time.monotonic() + seconds
    pause = 0.5
    while True:
        job = jobs.get(job.name) or job
        if job.ended or time.monotonic() >= until:
            return job
        time.sleep(pause)
        pause = min(pause * 1.5, 5.0)
