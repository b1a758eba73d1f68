"""`python -m jobs cancel NAME`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from common.errors import UserError
from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.azure import job_records
from jobs.azure.job_records import CANCELED_BY, ENDED, Job
from jobs.azure.submission import writable
from jobs.azure.workspace import Workspace, connect, segment
from jobs.console import Console, command
from jobs.errors import RequestError

ARRIVAL_SECONDS: Final = 3.0
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
        raise UserError(f"cancel: name a run or a job; `{command('list')}` shows them")
    console, workspace = Console(as_json=as_json), connect(outputs)
    job = _newest(workspace, job_records.find(workspace, options.name))
    while True:
        was = job.status
        # First of all, so that nobody submits it again between its end and the mark.
        marked = _mark(console, workspace, job)
        if not job.ended:
            job = _ended(workspace, job, options.wait_minutes * 60, marked=marked)
        following = _later(workspace, job, was)
        if following is None:
            break
        console.note(f"{following.name}: was submitted meanwhile")
        job = following
    document = {
        "run": job.run,
        "job": job.name,
        "before": was,
        "status": job.status,
        "marked": marked,
    }
    if was == job.status:
        after = "nobody will submit the run again" if marked else "it could not be marked"
        text = f"{job.name}: had ended already ({was}); {after}"
    elif job.ended:
        text = f"{job.name}: {job.status}"
    else:
        text = f"{job.name}: is being cancelled ({job.status})"
    console.answer(document, text)
    return 0


def _newest(workspace: Workspace, job: Job) -> Job:
    """The newest attempt of a job's run: cancelling an earlier one would end nothing."""
    tried = job_records.attempts(workspace, job.run) if job.attempt else ()
    return tried[-1] if tried else job


def _later(workspace: Workspace, job: Job, was: str) -> Job | None:
    """An attempt that someone who supervises has submitted between our look and our mark."""
    if job.attempt is None:
        return None
    # A job that ran when it was marked has no next one: who supervises looks at the mark first.
    until = time.monotonic() + (ARRIVAL_SECONDS if was in ENDED else 0.0)
    while True:
        newest = _newest(workspace, job)
        if newest.name != job.name:
            return newest
        if time.monotonic() >= until:
            return None
        time.sleep(0.5)


def _mark(console: Console, workspace: Workspace, job: Job) -> bool:
    """Tell all who supervise the run that a person has ended it; whether they can see it."""
    if job.canceled_by_us or job.attempt is None:
        return True
    mark = {CANCELED_BY: workspace.who() or "unknown"}
    experiment = segment(str(job.body.get("experimentName") or "Default"))
    try:
        # A guess, by what the studio and MLflow ask of the run history: no document of Azure's
        # names it, and it may change nothing that Resource Manager tells. So it is read back.
        path = f"experiments/{experiment}/runs/{segment(job.name)}"
        workspace.history("PATCH", path, {"tags": mark})
        if _is_marked(workspace, job):
            return True
        why = "its mark is not there"
    except RequestError as error:
        why = str(error).splitlines()[0]
    return _mark_by_body(console, workspace, job, mark, why)


def _mark_by_body(
    console: Console, workspace: Workspace, job: Job, mark: Mapping[str, str], why: str
) -> bool:
    """The way that Azure documents: of a job that is there, a PUT changes the tags and no more."""
    body = {"properties": {**writable(job), "tags": {**job.tags, **mark}}}
    try:
        workspace.arm("PUT", f"jobs/{segment(job.name)}", body=body)
        if _is_marked(workspace, job):
            return True
    except RequestError as error:
        why = str(error).splitlines()[0]
    console.note(
        f"{job.name}: could not be marked ({why}); who follows it with --resubmit.canceled True may"
        " submit it again, so end that as well"
    )
    return False


def _is_marked(workspace: Workspace, job: Job) -> bool:
    now = job_records.job(workspace, job.name)
    return now is not None and now.canceled_by_us


def _ended(workspace: Workspace, job: Job, seconds: float, *, marked: bool) -> Job:
    try:
        return _cancel(workspace, job, seconds)
    except RequestError as error:
        if not marked or job.attempt is None:
            raise
        raise type(error)(
            f"{error}\n{job.name}: was not cancelled and may run on; it is marked, so nobody will"
            f" submit it again. `{command('cancel', job.run)}` tries again",
            error.status,
        ) from error


def _cancel(workspace: Workspace, job: Job, seconds: float) -> Job:
    try:
        workspace.arm("POST", f"jobs/{segment(job.name)}/cancel")
    except RequestError:
        now = job_records.job(workspace, job.name)
        if now is None or not now.ended:
            raise
        # It was faster.
        return now
    return _wait(workspace, job, seconds)


def _wait(workspace: Workspace, job: Job, seconds: float) -> Job:
    until = time.monotonic() + seconds
    pause = 0.5
    while True:
        job = job_records.job(workspace, job.name) or job
        if job.ended or time.monotonic() >= until:
            return job
        time.sleep(pause)
        pause = min(pause * 1.5, 5.0)
