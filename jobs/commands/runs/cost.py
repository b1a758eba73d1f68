"""`python -m jobs cost`: the costs of the jobs of a workspace, added up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from common.annotations import Bounds
from common.errors import ConfigError
from common.prices import UNKNOWN, total
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure import costs
from jobs.azure.costs import JobCost, JobCosts
from jobs.azure.job_records import Job, by_run, recent
from jobs.azure.workspace import Workspace, connect
from jobs.commands.runs.compare import ComparedRun, about_runs, read_files
from jobs.console import Console, table
from jobs.errors import MissingError

_TAG: Final = "tag:"


@dataclass(frozen=True)
class CostOptions:
    """Estimate the costs of the jobs of the workspace, by run, week or tag."""

    by: str = "run"
    """What to add up by: run, week (of the submission), or tag:NAME, such as tag:preset, tag:data
    or tag:kind."""

    days: Annotated[int, Bounds(at_least=1)] = 30
    """Number of past days whose submitted jobs are counted."""

    estimates: bool = False
    """Also print the estimate and the outcome of completed runs; with --by run."""

    def __post_init__(self) -> None:
        if self.estimates and self.by != "run":
            raise ConfigError(["--estimates: pass it with --by run"])
        if self.by not in ("run", "week") and not self.by.startswith(_TAG):
            raise ConfigError([f"--by: {self.by!r} must be run, week or tag:NAME"])


def run(options: CostOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the costs of the newest jobs, archived ones included, and their sum."""
    console, workspace = Console(as_json=as_json), connect(outputs)
    newest = workspace.jobs.newest_first(archived=True)
    jobs = list(recent(newest, workspace.manager.now, options.days))
    console.note(f"looking up the times of {plural(len(jobs), 'job')}")
    spent = JobCosts(workspace.jobs, workspace.manager, outputs.clusters).of(jobs)
    groups = group(jobs, options.by)
    said = _about(workspace, outputs, groups, spent) if options.estimates else []
    console.answer(
        {
            "by": options.by,
            "days": options.days,
            "groups": [
                {
                    "name": name,
                    "jobs": [job.name for job in own],
                    **costs.document(total(spent[job.name] for job in own)),
                    **costs.starts(spent[job.name] for job in own),
                }
                for name, own in groups.items()
            ],
            **costs.document(total(spent.values())),
            **costs.starts(spent.values()),
            "about": said,
        },
        "\n".join([*_lines(options, groups, spent), *said]),
    )
    return 0


def _about(
    workspace: Workspace,
    outputs: PlatformOutputs,
    groups: Mapping[str, Sequence[Job]],
    spent: Mapping[str, JobCost],
) -> list[str]:
    """Return what leaves know of the runs that have files in storage."""
    runs = []
    for key, own in groups.items():
        try:
            files = read_files(workspace.storage, [key])[key]
        except MissingError:
            continue
        attempts = by_run(own).get(key, own)
        runs.append(ComparedRun(key, files, attempts, [spent[job.name] for job in own]))
    return about_runs(runs, outputs)


def group(jobs: Iterable[Job], by: str) -> dict[str, list[Job]]:
    """Group jobs by run, by the ISO week of their submission, or by a tag. Pure."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if by == "run":
            name = job.run
        elif by == "week":
            name = f"{job.created:%G-W%V}" if job.created else UNKNOWN
        else:
            name = job.tags.get(by.removeprefix(_TAG), "-")
        groups.setdefault(name, []).append(job)
    return groups


def _lines(
    options: CostOptions, groups: Mapping[str, Sequence[Job]], spent: Mapping[str, JobCost]
) -> list[str]:
    if not groups:
        return [f"no job was submitted in the last {plural(options.days, 'day')}"]
    rows = [
        (name, str(len(own)), *_figures([spent[job.name] for job in own]))
        for name, own in groups.items()
    ]
    whole = ("all", str(len(spent)), *_figures(list(spent.values())))
    named = options.by.removeprefix(_TAG)
    head = (named, "jobs", "node starts", "evicted nodes", "node time", "cost")
    return [*table(head, [*rows, whole]).splitlines(), f"cost: {costs.LEFT_OUT}"]


def _figures(own: Sequence[JobCost]) -> tuple[str, ...]:
    counted = costs.starts(own)
    return *map(str, counted.values()), *costs.words(own)
