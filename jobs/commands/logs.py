"""`python -m jobs logs NAME`."""

import json
from dataclasses import dataclass

from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.azure.job_records import ENDED
from jobs.azure.workspace import connect
from jobs.commands.follow import WatchOptions, detached
from jobs.console import Console, next_command
from jobs.errors import RequestError
from jobs.following.follower import Follower
from jobs.following.log_stream import LogLine, LogStream, process_logs


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
        raise UserError(f"logs: name a run or a job; `{next_command('list')}` shows them")
    console, settings = Console(as_json=as_json), options.settings()
    workspace = connect(outputs)
    jobs = workspace.jobs
    try:
        job = jobs.find(options.name)
        details = jobs.details(job.name)
        if options.follow and details.status not in ENDED:
            show = _print_json if as_json else None
            retry = settings.retry(console)
            Follower(jobs, workspace.manager, job, console, settings, retry, show).follow()
            return 0
    except KeyboardInterrupt:
        return detached(options.name)
    if not process_logs(details.logs, settings.ranks):
        ranks = [str(rank) for _, rank in process_logs(details.logs, lambda _: True)]
        raise UserError(
            f"{job.name}: has no such log (it is {details.status}; ranks with a log: "
            f"{', '.join(ranks) or 'none yet'})"
        )
    log = LogStream(jobs.read_log, settings.ranks)
    for line in [*log.more(details.logs), *log.rest()]:
        if as_json:
            _print_json(line)
        else:
            print(f"[{line.rank}] {line.text}" if settings.labelled else line.text)
    if log.refused:
        raise RequestError(f"{job.name}: {log.refused}")
    return 0


def _print_json(line: LogLine) -> None:
    print(json.dumps({"rank": line.rank, "line": line.text}), flush=True)
