"""A run whose ranks are the tasks of a barrier stage of Spark.

check the session and the run  ->  start the stage: all ranks at once  ->  collect how they ended
   ->  by the launcher's policy, restart from the newest checkpoint, or end

Not `horovod.spark`: it restarts nothing, and waits ten minutes for slots that a cluster lacks.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final

from common.errors import ConfigError, UserError
from trainer.distributed.launcher import SignalForwarder, repeat_attempts, say
from trainer.distributed.restart_policy import AttemptResult, describe_exit
from trainer.errors import STOP_STATUSES, TIME_LIMIT_STATUS
from trainer.extras.spark.job import Job
from trainer.extras.spark.messages import Mailbox
from trainer.extras.spark.ranks import Work, run_rank
from trainer.extras.spark.session import (
    REPLACEMENT_SECONDS,
    SLOT_SECONDS,
    check_allocation,
    get_context,
    wait_for_slots,
)
from trainer.extras.spark.world import (
    LOST,
    RankEnd,
    attempt_result,
    cancelled,
    causes,
    for_executors,
    lost_executor,
    reason,
)
from trainer.presets import parse_train, to_args

_ASKED_FIRST: Final = 2
"""Stop signals that are passed on to the ranks; a further one has Spark end their tasks."""
_SHOWN: Final = 3
"""Failed ranks whose last lines are printed: others may have failed because of the first."""
_CANCELLED: Final = 128 + signal.SIGTERM
"""Exit status if the job was cancelled in Spark; its ranks have received SIGTERM."""


class TrainingError(UserError):
    """A run on Spark that did not end successfully; has the exit status of its rank."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_code = status


def run(
    spark: Any, args: Sequence[str], num_proc: int, restarts: int = 3, *, module: str = "trainer"
) -> Path:
    """Train on a Spark cluster, each rank in a task of its own.

    Args:
        spark: `SparkSession`.
        args: Options of `ml-trainer train`. Relative folders are those of the driver; data
            and run folder must have the same path on driver and executors.
        num_proc: Number of ranks; as many slots must be free.
        restarts: Most restarts in a row without a newer checkpoint.
        module: Module that ranks run, with the arguments of `trainer`.

    Returns:
        Folder of the run.

    Raises:
        ConfigError: The configuration is invalid, or the cluster cannot start all ranks at once.
        DataError: The data are missing, or do not match their manifest.
        CheckpointError: The run exists and may not be continued with this configuration.
        TrainingError: The run failed, or was stopped.
    """
    from trainer.training.setup import set_up_for_launch

    stage = BarrierStage(spark, num_proc)
    config = for_executors(parse_train(args), num_proc, Path.cwd())
    setup = set_up_for_launch(config)
    folder = setup.folder.path
    folder.mkdir(parents=True, exist_ok=True)
    with stop_signals() as signals:
        result = repeat_attempts(
            lambda args: stage.attempt(Work(module, tuple(args), Mailbox(folder)), signals),
            ["train", *to_args(setup.config)],
            setup.folder.checkpoints.newest_step,
            restarts,
            lambda: bool(signals.received),
        )
    status = 128 + signals.received[0] if result is None else result.status
    if signals.status_at_once or status:
        raise TrainingError(_explain(folder, status), signals.status_at_once or status)
    return folder


def stop_signals() -> AbstractContextManager[SignalForwarder]:
    """Return a context that collects stop signals; none of them outside of the main thread, where
    Python does not handle any.
    """
    signals = SignalForwarder()
    handled = threading.current_thread() is threading.main_thread()
    return signals if handled else nullcontext(signals)


def _explain(folder: Path, status: int) -> str:
    if status in STOP_STATUSES or status == TIME_LIMIT_STATUS:
        return f"{folder}: was stopped; the same command with --name {folder.name} continues it"
    return f"{folder}: the training ended with status {status}; see the rank's output above"


class BarrierStage:
    """Starts all ranks of an attempt at once, as the tasks of a barrier stage."""

    def __init__(self, spark: Any, ranks: int) -> None:
        """Check the session.

        Args:
            spark: `SparkSession`.
            ranks: Number of ranks.

        Raises:
            ConfigError: The cluster cannot start all ranks at once.
        """
        self._context, self._ranks = get_context(spark), ranks
        check_allocation(self._context)
        wait_for_slots(self._context, ranks, SLOT_SECONDS)
        self.ends: list[RankEnd] = []
        """How the ranks of the last attempt ended, in their order."""

    def attempt(self, work: Work, signals: SignalForwarder) -> AttemptResult:
        """Start the ranks and wait for all of them.

        Args:
            work: The function that the ranks run.
            signals: Stop signals that this process receives.

        Raises:
            UserError: The executors cannot run the ranks, for a reason that would occur again.
        """
        say(f"starting {self._ranks} ranks on Spark", sys.stdout)
        wait_for_slots(
            self._context, self._ranks, REPLACEMENT_SECONDS, lambda: bool(signals.received)
        )
        if signals.received:
            return AttemptResult((-signals.received[0],))
        tasks = self._context.parallelize(range(self._ranks), self._ranks).barrier()
        started = tasks.mapPartitions(partial(run_rank, work))
        with _emptied(work.mailbox), Job(self._context, "training", started.collect) as job:
            _follow(job, work.mailbox, signals)
        if job.error is not None:
            self.ends = []
            return _lost(job.error, stopped=bool(signals.received))
        self.ends = sorted(job.result, key=lambda end: end.rank)
        for end in self.ends:
            if end.problem:
                raise ConfigError([end.problem])
        for end in causes(self.ends)[:_SHOWN] if not signals.received else ():
            say(f"{describe_exit(end.rank, end.status or 0)}, on {end.host}")
            if end.rank or work.mailbox is None:
                say("".join(f"[rank {end.rank}] {line}\n" for line in end.lines))
        return attempt_result(self.ends)


def _follow(job: Job, mailbox: Mailbox | None, signals: SignalForwarder) -> None:
    """Print the output of rank 0, and pass stop signals on, until the job has ended."""
    passed_on = 0
    while not job.wait(0.5):
        if mailbox is not None:
            print(*mailbox.take_texts(), sep="", end="", flush=True)
        for number in signals.received[passed_on:]:
            passed_on += 1
            if mailbox is None or passed_on > _ASKED_FIRST:
                job.cancel()
                continue
            if passed_on == 1:
                say("asking the ranks to stop after this step; Ctrl-C again ends them now")
            mailbox.send_stop(number)
    if mailbox is not None:
        print(*mailbox.take_texts(), sep="", end="", flush=True)


def _lost(error: Exception, *, stopped: bool) -> AttemptResult:
    """Return the outcome of a stage that Spark ended.

    Raises:
        UserError: An executor could not run the ranks at all.
        TrainingError: The job was cancelled in Spark.
    """
    message = str(error)
    if stopped:
        return AttemptResult((LOST,))
    if cancelled(message):
        raise TrainingError(f"the job was cancelled in Spark ({reason(message)})", _CANCELLED)
    if not lost_executor(message):
        raise UserError(
            f"the executors cannot run the ranks ({reason(message)}); the trainer and its packages"
            " must be installed on them, or sent by --py-files and --archives"
        ) from error
    say(f"Spark lost a rank: {reason(message)}")
    return AttemptResult((LOST,))


@contextmanager
def _emptied(mailbox: Mailbox | None) -> Iterator[None]:
    try:
        yield
    finally:
        if mailbox is not None:
            mailbox.clear()
