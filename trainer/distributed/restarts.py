"""Start a run on this machine, and start it again when it has crashed."""

import re
import time
from collections.abc import Sequence

from trainer.checkpoints.format import DONE
from trainer.distributed.launcher import Signals, attempt, say
from trainer.distributed.restart_policy import Ending, decide
from trainer.run_folder import RunFolder

_STEP = re.compile(r"step-(\d+)")


def supervise(args: Sequence[str], ranks: int, run: RunFolder, restarts: int) -> int:
    """Run `python -m trainer ARGS` as several ranks until it has ended well, was asked to stop, or
    is broken.

    Args:
        args: a training's, which name its run.
        ranks: processes to start.
        run: the folder of that run.
        restarts: how often to start it again without a newer checkpoint; see
            `trainer.distributed.restart_policy`.

    Returns:
        0 if the last attempt succeeded; else the status of its rank that failed first.
    """
    history: list[Ending] = []
    with Signals() as signals:
        while True:
            before = newest_step(run)
            ended = attempt(args, ranks, signals)
            if signals.received:
                return ended.status
            history.append(Ending(ended.statuses, ended.failures, before, newest_step(run)))
            decision = decide(history, restarts)
            if decision.reason:
                say(decision.reason)
            if not decision.restart:
                return ended.status
            deadline = time.monotonic() + decision.delay
            while time.monotonic() < deadline:
                time.sleep(0.05)
                if signals.received:
                    return 128 + signals.received[0]
            # What the last attempt has saved is there to be continued, whatever was asked at first.
            args = [*args, "--resume", "auto"]


def newest_step(run: RunFolder) -> int | None:
    """Steps of the newest complete checkpoint; it is not read, for which all ranks would wait."""
    complete = (path for path in run.checkpoints.steps() if (path / DONE).exists())
    name = next((_STEP.match(path.name) for path in complete), None)
    return int(name[1]) if name else None
