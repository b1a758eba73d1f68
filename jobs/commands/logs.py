"""`python -m jobs logs NAME`: print the logs of a job."""

import json
from dataclasses import dataclass
from typing import Annotated

from common.annotations import Positional
from common.errors import UserError
from infra.outputs import PlatformOutputs
from jobs.azure.job_records import ENDED
from jobs.azure.workspace import connect
from jobs.commands.follow import WatchOptions, detached
from jobs.console import SHOWN, Console
from jobs.errors import RequestError
from jobs.following.follower import Follower
from jobs.following.log_stream import LogLine, LogStream, process_logs


@dataclass(frozen=True)
class LogsOptions(WatchOptions):
    """Print stdout and stderr of the processes of a job. NAME is the key of a run, which
    stands for its newest attempt, or the name of a job. --json prints one JSON object per line.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of the job."""

    follow: bool = False
    """Continue until the job ends."""


def run(options: LogsOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Print the log; with --follow until the job ends, successfully or not."""
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
            f"{job.name}: no logs of these ranks (job status: {details.status}; ranks with a log: "
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
