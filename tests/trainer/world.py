"""Run a function in several real Horovod ranks and return what each of them returned.

The functions live in `tests.trainer.scenarios`; arguments and results travel as pickles in files,
so that a test can compare arrays to the bit.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.distributed import rendezvous
from trainer.launch import rank_environment

TIMEOUT = 120
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
ROOT = Path(__file__).resolve().parents[2]


def run_world(
    scenario: Callable[..., Any],
    ranks: int,
    *args: Any,
    overrides: Sequence[Mapping[str, str]] | None = None,
    prefixes: Sequence[Sequence[str]] | None = None,
    address: str = "127.0.0.1",
) -> list[Any]:
    """Call `scenario(*args)` in every rank; results in the order of ranks.

    Args:
        scenario: a function of `tests.trainer.scenarios`.
        ranks: size of the world; 1 means no Horovod.
        args: its arguments.
        overrides: environment of each rank, over that of ranks on one machine.
        prefixes: what each rank's command starts with, such as `ip netns exec NAME`.
        address: where the rendezvous listens.
    """
    with tempfile.TemporaryDirectory() as scratch, rendezvous(address) as port:
        (Path(scratch) / "args").write_bytes(pickle.dumps(args))
        processes = []
        for rank in range(ranks):
            env = dict(os.environ)
            if ranks > 1:
                env = rank_environment(env, rank, ranks, port)
            env |= {**QUIET, **(overrides[rank] if overrides else {})}
            command = [
                sys.executable,
                "-m",
                "tests.trainer.world",
                scenario.__name__,
                scratch,
                str(rank),
            ]
            processes.append(
                subprocess.Popen(
                    [*(prefixes[rank] if prefixes else ()), *command],
                    env=env,
                    cwd=ROOT,
                    stdout=(Path(scratch) / f"log{rank}").open("w"),
                    stderr=subprocess.STDOUT,
                )
            )
        try:
            _wait(processes)
        finally:
            for process in processes:
                process.kill()
        for rank, process in enumerate(processes):
            status, log = process.wait(), (Path(scratch) / f"log{rank}").read_text()
            assert status == 0, f"rank {rank} ended with {status}:\n{log}"
        return [pickle.loads((Path(scratch) / f"{rank}").read_bytes()) for rank in range(ranks)]


def _wait(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Until all have ended, one has failed, or time is up."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        statuses = [process.poll() for process in processes]
        if None not in statuses or any(statuses):
            return
        time.sleep(0.05)


def main() -> None:
    """Be one rank."""
    from tests.trainer import scenarios

    name, scratch, rank = sys.argv[1:]
    args = pickle.loads((Path(scratch) / "args").read_bytes())
    result = getattr(scenarios, name)(*args)
    (Path(scratch) / rank).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main()
