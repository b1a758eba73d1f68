"""`python -m jobs cancel NAME`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from infra.outputs import PlatformOutputs
from jobs import attempts
from jobs.azure import Workspace, connect, segment
from jobs.console import Console
from jobs.errors import JobsError, RequestError
from jobs.history import CANCELED_BY, Job
from jobs.submission import writable
from trainer.fields import Bounds


@dataclass(frozen=True)
class CancelOptions:
    """End a run: its job is cancelled, and whoever supervises it stops. Its checkpoints stay. NAME
    is the key of a run or the name of a job.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    wait_minutes: Annotated[float, Bounds(at_least=0)] = 10.0
    """To wait for its end; 0 is not at all."""


def run(options: CancelOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Cancel a run, and wait until nothing of it runs."""
    if not options.name:
        raise JobsError("cancel: name a run or a job; `python -m jobs list` shows them")
    console, workspace = Console(as_json=as_json), connect(outputs)
    job = attempts.find(workspace, options.name)
    was = job.status
    # First of all, so that nobody submits it again between its end and the mark.
    _mark(console, workspace, job)
    if not job.ended:
        job = _cancel(workspace, job, options.wait_minutes * 60)
    document = {"run": job.run, "job": job.name, "before": was, "status": job.status}
    if was == job.status:
        text = f"{job.name}: had ended already ({was}); nobody will submit the run again"
    elif job.ended:
        text = f"{job.name}: {job.status}"
    else:
        text = f"{job.name}: is being cancelled ({job.status})"
    console.answer(document, text)
    return 0


def _mark(console: Console, workspace: Workspace, job: Job) -> None:
    """Tell all who supervise the run that a person has ended it."""
    if job.canceled_by_us or job.attempt is None:
        return
    mark = {CANCELED_BY: workspace.who() or "unknown"}
    experiment = segment(str(job.body.get("experimentName") or "Default"))
    try:
        # As the studio does it.
        path = f"experiments/{experiment}/runs/{segment(job.name)}"
        workspace.history("PATCH", path, {"tags": mark})
    except RequestError:
        _mark_by_body(console, workspace, job, mark)


def _mark_by_body(
    console: Console, workspace: Workspace, job: Job, mark: Mapping[str, str]
) -> None:
    """The way that Azure documents: of a job that is there, a PUT changes the tags and no more."""
    body = {"properties": {**writable(job), "tags": {**job.tags, **mark}}}
    try:
        workspace.arm("PUT", f"jobs/{segment(job.name)}", body=body)
    except RequestError as error:
        console.note(
            f"{job.name}: could not be marked ({str(error).splitlines()[0]}); who follows it with"
            " --resubmit.canceled True may submit it again, so end that as well"
        )


def _cancel(workspace: Workspace, job: Job, seconds: float) -> Job:
    try:
        workspace.arm("POST", f"jobs/{segment(job.name)}/cancel")
    except RequestError:
        now = attempts.job(workspace, job.name)
        if now is None or not now.ended:
            raise
        # It was faster.
        return now
    return _wait(workspace, job, seconds)


def _wait(workspace: Workspace, job: Job, seconds: float) -> Job:
    until = time.monotonic() + seconds
    pause = 0.5
    while True:
        job = attempts.job(workspace, job.name) or job
        if job.ended or time.monotonic() >= until:
            return job
        time.sleep(pause)
        pause = min(pause * 1.5, 5.0)
