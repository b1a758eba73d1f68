"""`python -m jobs list`: jobs of the workspace, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, Literal

from common.fields import Bounds
from infra.outputs import PlatformOutputs
from jobs.azure import job_records
from jobs.azure.job_records import Job
from jobs.azure.workspace import connect
from jobs.console import Console, table


@dataclass(frozen=True)
class ListOptions:
    """List the jobs of the workspace, the newest first."""

    limit: Annotated[int, Bounds(at_least=1)] = 30
    """Jobs to list."""

    all: bool = False
    """Those of other programs as well."""

    kind: Literal["train", "smoke", "benchmark", "prepare", "check"] | None = None
    """Only of this kind."""


def run(options: ListOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """List jobs."""
    wanted = (
        job
        for job in job_records.listed(connect(outputs))
        if (options.all or job.attempt is not None) and options.kind in (None, job.kind)
    )
    jobs = list(islice(wanted, options.limit))
    Console(as_json=as_json).answer([document(job) for job in jobs], _words(jobs))
    return 0


def document(job: Job) -> dict[str, Any]:
    """A job for a program."""
    return {
        "job": job.name,
        "run": job.run,
        "attempt": job.attempt.number if job.attempt else None,
        "kind": job.kind or None,
        "status": job.status,
        "cluster": job.cluster,
        "nodes": job.nodes,
        "created": job.created.isoformat() if job.created else None,
        "page": job.page,
    }


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago something was, by its largest unit."""
    if moment is None:
        return ""
    seconds = max(((now or datetime.now(UTC)) - moment).total_seconds(), 0.0)
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (unit != "min" and seconds >= size * 1.5):
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _words(jobs: Sequence[Job]) -> str:
    if not jobs:
        return "no jobs; `python -m jobs submit --help` says how to begin one"
    rows = [
        (job.name, job.kind, job.status, job.cluster, str(job.nodes), f"{ago(job.created)} ago")
        for job in jobs
    ]
    return table(("job", "kind", "status", "cluster", "nodes", "created"), rows)
