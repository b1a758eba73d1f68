"""`python -m jobs stacks NAME`: the calls in which the ranks of a running job are."""

from dataclasses import asdict, dataclass
from typing import Annotated

from common.annotations import Bounds, Positional
from common.errors import INTERRUPTED
from common.text import plural
from infra.outputs import PlatformOutputs
from jobs.azure.workspace import connect
from jobs.console import SHOWN, Console, next_command
from jobs.extras.inspection.running_run import RunBlobs, find_running, ranks_of
from trainer.distributed.run_requests import RankState, show_stacks, stuck_text


@dataclass(frozen=True)
class StacksOptions:
    """Print the Python stacks of all ranks of a running job, and whether each rank waits for data
    or for other ranks. The run continues. NAME is the key of a run, which stands for its newest
    job, or the name of a job. The ranks are asked, and answer, through the run's folder in blob
    storage.
    """

    name: Annotated[str, Positional("NAME"), SHOWN] = ""
    """Key of the run or name of the job."""

    wait_seconds: Annotated[float, Bounds(above=0)] = 120.0
    """Longest time to wait for the ranks, in seconds. Each looks for requests every 10 seconds, but
    its mount may show them later."""


def run(options: StacksOptions, outputs: PlatformOutputs, *, as_json: bool) -> int:
    """Ask all ranks, and print their answers as they come.

    Returns:
        Exit status: 0 if all ranks have answered, 1 if one has not, 130 after Ctrl-C.
    """
    workspace, console = connect(outputs), Console(as_json=as_json)
    job = find_running(workspace.jobs, options.name)
    ranks = ranks_of(job)
    console.note(f"{job.name}: asking {plural(ranks, 'rank')}; most answer within 20 s")
    states: dict[int, RankState] = {}
    missing = list(range(ranks))
    try:
        files = RunBlobs(workspace, job)
        with workspace.storage.errors(files.store, writing=True):
            states, missing = show_stacks(files, ranks, options.wait_seconds, console.say)
    except KeyboardInterrupt:
        console.note("interrupted; the training continues")
        return INTERRUPTED
    if missing:
        listed = ", ".join(map(str, missing))
        console.note(
            f"{job.name}: no answer from rank {listed} within {options.wait_seconds:g} s. A rank"
            " that is stopped, or holds Python's lock (GIL), cannot answer; its watchdog prints its"
            f" stacks before it ends it: `{next_command('logs', job.name, '--rank', 'all')}`"
        )
    if as_json:
        document = {
            "run": job.run,
            "job": job.name,
            "ranks": [asdict(state) for state in states.values()],
            "missing": missing,
            "summary": stuck_text(states, missing),
        }
        console.answer(document, "")
    return 1 if missing else 0
