"""`ml-trainer stacks`: the Python stacks of all ranks of a run on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from common.annotations import Bounds, Positional
from trainer.distributed.run_requests import LocalFiles, show_stacks
from trainer.errors import RunRequestError
from trainer.report.run_data import read_run


@dataclass(frozen=True)
class StacksOptions:
    """Print the Python stacks of all ranks of a run that trains on this machine, and whether each
    rank waits for data or for other ranks. The run continues.
    """

    run: Annotated[str, Positional("[RUN]")] = "runs/latest"
    """Folder of the run; without one it is runs/latest."""

    seconds: Annotated[float, Bounds(at_least=1)] = 30.0
    """Longest time to wait for the ranks, in seconds; each looks for requests every 10 s."""


def print_local_stacks(options: StacksOptions) -> None:
    """`ml-trainer stacks`: print the stacks of all ranks of a run on this machine.

    Raises:
        RunRequestError: The run is finished, or a rank does not answer.
        CheckpointError: The folder is not that of a run.
    """
    run, seconds = Path(options.run), options.seconds
    if not run.is_dir():
        raise RunRequestError(f"{run}: does not exist; name the folder of a run that trains")
    # A run that continues after its result is not finished.
    if (run / "result.json").is_file() and read_run(run).state == "finished":
        raise RunRequestError(f"{run}: is finished; name the folder of a run that trains")
    states, missing = show_stacks(LocalFiles(run), None, seconds, print)
    if not states:
        raise RunRequestError(
            f"{run}: no rank has answered within {seconds:g} s; is it training? If a rank hangs and"
            " holds Python's lock, `kill -USR2 PID` still prints its stacks"
        )
    if missing:
        raise RunRequestError(
            f"{run}: rank {', '.join(map(str, missing))} has not answered; `kill -USR2 PID` prints"
            " its stacks, unless it is stopped"
        )
