"""`python -m jobs logs NAME`."""

import json
from dataclasses import dataclass

from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.azure import job_records
from jobs.azure.job_records import ENDED
from jobs.azure.workspace import connect
from jobs.commands.follow import WatchOptions, detached
from jobs.console import Console, command
from jobs.errors import RequestError
from jobs.following.follower import Follower
from jobs.following.log_stream import Line, Logs, fetcher, wanted


@dataclass(frozen=True)
class LogsOptions(WatchOptions):
    """Print what the processes of a job wrote to stdout and stderr. NAME is the key of a run, and
    then its newest attempt, or the name of a job. With --json a JSON object a line.
    """

    name: str = ""
    """Of the run or the job; the first argument."""

    follow: bool = False
    """Go on until the job has ended."""


def run(options: LogsOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the log; with --follow until the job has ended, whatever its end."""
    if not options.name:
        raise UserError(f"logs: name a run or a job; `{command('list')}` shows them")
    workspace, manner = connect(outputs), options.manner()
    try:
        job = job_records.find(workspace, options.name)
        details = job_records.details(workspace, job.name)
        if options.follow and details.status not in ENDED:
            show = _print_json if as_json else None
            Follower(workspace, job, Console(as_json=as_json), manner, show=show).follow()
            return 0
    except KeyboardInterrupt:
        return detached(options.name)
    files = wanted(details.logs, manner.ranks)
    if not files:
        known = ", ".join(str(rank) for _, rank in wanted(details.logs, lambda _: True))
        raise UserError(
            f"{job.name}: has no such log (it is {details.status}; ranks with a log: "
            f"{known or 'none yet'})"
        )
    logs = Logs(fetcher(workspace), manner.ranks)
    for line in [*logs.more(details.logs), *logs.rest()]:
        if as_json:
            _print_json(line)
        else:
            print(f"[{line.rank}] {line.text}" if manner.named else line.text)
    if logs.refused:
        raise RequestError(f"{job.name}: {logs.refused}")
    return 0


def _print_json(line: Line) -> None:
    print(json.dumps({"rank": line.rank, "line": line.text}), flush=True)
