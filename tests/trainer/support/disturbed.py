"""The trainer with a small model, whose process, or the executor above it, is killed once:

python -m tests.trainer.support.disturbed ARGS

A file `disturb` in the folder of runs says which rank, after how many steps, and what happens.
"""

import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from common.errors import ConfigError


def ask(runs: Path, rank: int, step: int, what: str) -> None:
    """Have a rank disturbed: it is killed (`rank`), or its `executor`; or it `refuses` its
    configuration, or `waits` from then on before each step.
    """
    runs.mkdir(exist_ok=True)
    (runs / "disturb").write_text(json.dumps([rank, step, what]))


def disturb(runs: Path, step: int) -> None:
    try:
        rank, when, what = json.loads((runs / "disturb").read_text())
    except OSError:
        return
    if rank != int(os.environ["HOROVOD_RANK"]) or step < when:
        return
    if what == "waits":
        (runs / "waiting").touch()
        time.sleep(0.2)
        return
    if what == "refuses":
        raise ConfigError(["--option: does not fit this machine"])
    (runs / "disturb").unlink()
    victim = os.getpid() if what == "rank" else executor()
    os.kill(victim, signal.SIGKILL)
    time.sleep(60)


def executor() -> int:
    """The JVM of the executor above this process."""
    return next(
        int(process.pid)
        for process in psutil.Process().parents()
        if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    )


if __name__ == "__main__":
    from tests.trainer.support.small_model import small_model
    from trainer.model import build

    # Before other modules take it from there.
    vars(build)["build_model"] = small_model

    from trainer.training.run import Attempt

    runs = Path(sys.argv[sys.argv.index("--runs-dir") + 1])
    take_steps = Attempt._take_steps

    def disturbed(attempt: Attempt, step: int, epoch: int) -> Any:
        disturb(runs, step)
        return take_steps(attempt, step, epoch)

    Attempt._take_steps = disturbed  # type: ignore[method-assign, assignment]
    runpy.run_module("trainer", run_name="__main__", alter_sys=True)
