"""Keeps the node of a job that has failed for some minutes, so that a person can look into it.

mpirun ends all ranks, and the job, as soon as one of its processes ends with an error. So the
process that mpirun starts only waits here, and the rank itself is its child: whatever happens to
the child, even SIGKILL for lack of memory, this process can wait before it ends with the child's
status. Each rank that fails does so, whether it failed first or only lost another one; the first
one to have failed is the first to end, and decides the status of the job.

The GPUs and the memory of the rank are free meanwhile, so that commands can be run on the node.
Nothing is kept after a success, at the run's time limit, or if the job was asked to stop:
cancelled, pre-empted, timed out. Nor is it after the first step that does not fit into memory,
because the run can continue at once.
Signals reach the child without help, because mpirun signals the whole process group.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from common.files import write_atomically
from common.waiting import wait_until
from trainer.distributed.launcher import PARENT
from trainer.distributed.request_listener import new_requests
from trainer.distributed.run_requests import HOLD_MINUTES, POLL_SECONDS, held_file
from trainer.errors import (
    STOP_SIGNALS,
    STOP_STATUSES,
    TIME_LIMIT_STATUS,
    WATCHDOG_EXIT_CODE,
    OutOfMemoryError,
    PeerError,
)

_CONSEQUENCES: Final = (PeerError.exit_code, WATCHDOG_EXIT_CODE)
"""Statuses of ranks that may only have waited for the one that failed."""
_NOT_HELD: Final = STOP_STATUSES | {0, TIME_LIMIT_STATUS, OutOfMemoryError.exit_code}
"""Statuses after which nothing is to be looked into."""


def hold_minutes(env: Mapping[str, str]) -> float:
    """Return for how many minutes to keep the node of a rank that fails; 0 in the rank itself."""
    return float(env.get(HOLD_MINUTES) or 0)


def run_and_hold(args: Sequence[str], run: Path | None, rank: int, minutes: float) -> int:
    """Run `python -m trainer ARGS` as one rank; if it fails, wait before returning.

    Args:
        args: Arguments of the training.
        run: Folder of the run, in which the end of the wait is written, and can be requested; None
            if its name is not known.
        rank: Rank of this process.
        minutes: Longest time to wait, in minutes.

    Returns:
        Exit status of the rank; 128 + the signal that killed it.
    """
    stops: list[int] = []
    for number in STOP_SIGNALS:
        signal.signal(number, lambda number, _: stops.append(number))
    env = {name: value for name, value in os.environ.items() if name != HOLD_MINUTES}
    # The rank ends if this process is killed.
    env[PARENT] = str(os.getpid())
    code = subprocess.call([sys.executable, "-m", "trainer", *args], env=env)
    status = 128 - code if code < 0 else code
    if status not in _NOT_HELD and not stops:
        _hold(run, rank, status, minutes, stops)
    return status


def _hold(run: Path | None, rank: int, status: int, minutes: float, stops: list[int]) -> None:
    known: set[str] = set()
    # Requests that are older than the failure.
    listed = run is not None and new_requests(run, known) is not None
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    job = os.environ.get("AZUREML_RUN_ID", "")
    print(
        f"rank {rank}: failed with status {status}; its node is kept until {until:%H:%M:%S} UTC"
        f" ({minutes:g} min, --hold-on-failure). To get in: python -m jobs debug {job}; to end"
        f" it now: python -m jobs debug {job} --release, or cancel the job",
        file=sys.stderr,
        flush=True,
    )
    held = run / held_file(rank) if run is not None else None
    if held is not None:
        facts = {"job": job, "rank": rank, "status": status, "until": until.isoformat()}
        with suppress(OSError):
            write_atomically(held, json.dumps(facts))

    def released() -> bool:
        new = new_requests(run, known, fresh=listed) if run is not None else None
        return any(request.action == "release" for request in new or ())

    deadline = time.monotonic() + minutes * 60
    while not stops and (left := deadline - time.monotonic()) > 0:
        if released():
            if status in _CONSEQUENCES:
                # All ranks see a release at about the same time, and the cause must end first.
                wait_until(lambda: bool(stops), 2 * POLL_SECONDS)
            break
        wait_until(lambda: bool(stops), min(left, POLL_SECONDS))
    if held is not None:
        with suppress(OSError):
            held.unlink()
