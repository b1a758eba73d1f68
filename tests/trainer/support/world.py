"""Run a function in several real Horovod ranks and return the result of each.

The functions live in `scenarios.py` and `run_scenarios.py`; arguments and results travel as
pickles in files, so that a test can compare all bits of arrays.
"""

import importlib
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests import ROOT
from trainer.distributed import launcher
from trainer.distributed.horovod import rendezvous

TIMEOUT = 600
"""Seconds; more than any machine needs that gets there at all."""

# Importing TensorFlow takes seconds of processor time; every rank is forked from one that has.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.trainer.support.loaded"])


def run_world(
    scenario: Callable[..., Any],
    ranks: int,
    *args: Any,
    overrides: Sequence[Mapping[str, str]] | None = None,
    prefixes: Sequence[Sequence[str]] | None = None,
    address: str = "127.0.0.1",
    launched: bool = True,
) -> list[Any]:
    """Call `scenario(*args)` in every rank; results in the order of ranks.

    Args:
        scenario: a function of a module, such as those of `tests.trainer.support.scenarios`.
        ranks: size of the world; 1 means no Horovod.
        args: its arguments.
        overrides: environment of each rank, over that of ranks on one machine.
        prefixes: prefix of each rank's command, such as `ip netns exec NAME`.
        address: where the rendezvous listens.
        launched: whether the ranks have the environment that our launcher gives them.
    """
    with tempfile.TemporaryDirectory() as scratch, rendezvous(address) as port:
        (Path(scratch) / "args").write_bytes(pickle.dumps(args))
        processes = []
        for rank in range(ranks):
            env = launcher.rank_environment({}, rank, ranks, port) if launched and ranks > 1 else {}
            env |= overrides[rank] if overrides else {}
            prefix = prefixes[rank] if prefixes else ()
            given = (f"{scenario.__module__}:{scenario.__name__}", scratch, str(rank))
            # The server imports `tests` from the folder that it starts in.
            with chdir(ROOT):
                forkserver.ensure_running()
            processes.append(FORKED.Process(target=_begin, args=(env, prefix, given)))
            processes[-1].start()
        try:
            _wait(processes)
        finally:
            for process in processes:
                process.kill()
        for rank, process in enumerate(processes):
            process.join()
            status, log = process.exitcode, (Path(scratch) / f"log{rank}").read_text()
            assert status == 0, f"rank {rank} ended with {status}:\n{log}"
        return [pickle.loads((Path(scratch) / f"{rank}").read_bytes()) for rank in range(ranks)]


def _wait(processes: Sequence[BaseProcess]) -> None:
    """Until all have ended, one has failed, or time is up."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        statuses = [process.exitcode for process in processes]
        if None not in statuses or any(statuses):
            return
        time.sleep(0.05)


def _begin(env: Mapping[str, str], prefix: Sequence[str], given: tuple[str, str, str]) -> None:
    """Become one rank, in a process that has loaded everything and has not used it."""
    os.environ.update(env)
    if launcher.PARENT in env:
        os.environ[launcher.PARENT] = str(os.getppid())
    _, scratch, rank = given
    log = os.open(Path(scratch) / f"log{rank}", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if prefix:
        command = [*prefix, sys.executable, "-m", "tests.trainer.support.world", *given]
        os.chdir(ROOT)
        os.execvp(command[0], command)
    _run(*given)


def _run(name: str, scratch: str, rank: str) -> None:
    module, _, function = name.partition(":")
    args = pickle.loads((Path(scratch) / "args").read_bytes())
    result = getattr(importlib.import_module(module), function)(*args)
    (Path(scratch) / rank).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    _run(*sys.argv[1:])
