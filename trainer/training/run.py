"""A training, from top to bottom.

join the world that the launcher started
set up: data set, plan, run folder       refuse what cannot work before anything is built
build network, loop and watchdog
restore the newest checkpoint            if the run exists
take the first step                      which traces and compiles
until the last step, or a request to stop:
report, evaluate and save            whatever is due
take steps                           until something is due again
go back to a checkpoint              if a loss or gradient was not finite
evaluate, save, write the predictions
write the result, export the model
"""

import gc
import os
import signal
import sys
from typing import Any, NoReturn

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.data.data_set import write_digits_if_missing
from trainer.data.rank_data import RankData
from trainer.diagnostics.device import set_up_device, share_of_cores
from trainer.diagnostics.nccl import NcclLog, Transport, nccl_log
from trainer.diagnostics.profiler import Profiler
from trainer.diagnostics.startup_report import StartupReport
from trainer.distributed import signals
from trainer.distributed.communicator import Communicator
from trainer.distributed.failures import tell_failure
from trainer.distributed.horovod import connect
from trainer.distributed.launcher import end_with_launcher
from trainer.distributed.rank import launched_as
from trainer.distributed.watchdog import Watchdog
from trainer.errors import STOP_SIGNALS, NonFiniteError, PeerError
from trainer.export.exporter import export_model, exported_step
from trainer.training.checkpointing import Saver
from trainer.training.evaluator import Evaluator
from trainer.training.loop import LoopReport
from trainer.training.metrics import PhaseTimer, Totals
from trainer.training.reporter import Reporter
from trainer.training.setup import RunSetup, run_name, set_up, warn
from trainer.training.stepper import Stepper
from trainer.training.validation import Validation


def train(config: TrainConfig) -> int:
    """Train, evaluate and save, as one rank of the world that the launcher started.

    Returns:
        0, or 128 + the signal that asked the run to stop.

    Raises:
        UserError: The training failed; says why and what to do.
    """
    end_with_launcher()
    launched = launched_as(os.environ)
    with Watchdog(config.watchdog, launched) as watchdog, nccl_log(launched) as nccl:
        if nccl is not None:
            watchdog.last_words = nccl.last_words
        try:
            return _train(config, watchdog, nccl)
        except Exception as error:
            tell_failure(error, watchdog.step)
            raise


def _train(config: TrainConfig, watchdog: Watchdog, nccl: NcclLog | None) -> int:
    # Horovod's start waits for the other ranks in C, where no Python signal handler would run.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    communicator = connect(config.exchange)
    stop = signals.StopRequest()
    stop.install()
    if signals.started_by_mpirun(os.environ):
        signals.listen_for_mpirun()
    set_up_device(config, communicator)
    try:
        status = Attempt(config, communicator, watchdog, nccl).run(stop)
    except tf.errors.OpError as error:
        if lost_peer(error):
            first_line = error.message.splitlines()[0]
            raise PeerError(
                f"rank {communicator.rank}: another rank ended: {first_line}"
            ) from error
        raise
    stop.detach()
    # The data sets call Python while they shut down, so they must end before Python does.
    gc.collect()
    communicator.shutdown()
    return status


def lost_peer(error: tf.errors.OpError) -> bool:
    """Return whether a failed step means that another rank is gone. Horovod has no error type for
    that.
    """
    return isinstance(error, tf.errors.UnknownError) and any(
        sign in error.message for sign in ("Horovod", "Connection", "Timed out", "gloo")
    )


class Attempt:
    """One attempt of a run, on one rank."""

    def __init__(
        self,
        config: TrainConfig,
        communicator: Communicator,
        watchdog: Watchdog,
        nccl: NcclLog | None = None,
    ) -> None:
        """Args:
        config: Configuration of the run.
        communicator: World of ranks.
        watchdog: Watchdog of this rank.
        nccl: Log of this rank's NCCL, if it writes one.
        """
        self._world, self._watchdog, self._nccl = communicator, watchdog, nccl
        self._chief = communicator.rank == 0
        self._setup = setup = _set_up(config, communicator)
        self._config, self._plan, self._folder = setup.config, setup.plan, setup.folder
        watchdog.share(setup.folder.path)

        timer = PhaseTimer(watchdog.phase)
        self._totals = Totals(timer, setup.plan.global_batch)
        threads = setup.config.data.decode_threads or share_of_cores(communicator)
        self._rank_data = RankData(setup.config, setup.data_set, communicator, threads)
        self._stepper = Stepper(setup, communicator, self._rank_data, self._totals, watchdog)
        self._startup = StartupReport.gather(communicator, setup.folder.path)
        self._reporter = Reporter(setup, chief=self._chief)
        evaluator = Evaluator(
            self._stepper.model,
            communicator,
            setup.data_set.normalization,
            xla=setup.config.compute.xla,
        )
        self._validation = Validation(
            evaluator, self._rank_data, setup, communicator, self._reporter, timer, watchdog.alive
        )
        record = setup.record.to_json()
        self._saver = Saver(
            setup.config.checkpoint,
            setup.folder.checkpoints,
            communicator,
            self._stepper.state,
            [lambda _: record, self._totals.to_meta, self._validation.to_meta],
        )
        self._profiler = Profiler(
            setup.config.profile_span, setup.folder.path / "profile", chief=self._chief
        )

    def run(self, stop: signals.StopRequest) -> int:
        """Restore, train to the last step, evaluate and save; or stop early and save.

        Returns:
            0, or 128 + the signal that asked any rank to stop.
        """
        step, plan, reporter = self._restore(), self._plan, self._reporter
        if step >= plan.last_step:
            return self._already_done(step)
        # The data continue at the position of that step.
        self._rank_data.open(self._totals.position(step))
        stop.attach(self._stepper.loop.request_stop)
        epoch, stopped = int(plan.epoch_of(step)), False
        with reporter.console, reporter.mlflow:
            reporter.headline(step, self._startup.lines())
            self._warn(self._startup.warning())
            # The first step traces and compiles, so it is taken and timed on its own.
            report = self._compile(step)
            self._open(step, self._tell_transport())
            self._saver.begin()
            while True:
                step += report.steps
                if report.bad_step is not None:
                    step = self._roll_back(step)
                    epoch = int(plan.epoch_of(step))
                    report = self._take_steps(step, epoch)
                    continue
                stopped = report.stopped
                done = step >= plan.last_step or stopped
                if stopped:
                    # Before anything else, because only a second may be left.
                    reporter.stopping(step, self._saver.newest)
                    self._save_now(step)
                if step % self._config.log.every_steps == 0 or done:
                    reporter.training(step, self._stepper.summary(step))
                if done:
                    break
                ended = None
                while plan.epoch_end(epoch + 1) <= step:
                    ended = epoch = epoch + 1
                    self._end_epoch(epoch, step)
                self._save_if_due(step, ended)
                self._tell_profile(written=self._profiler.reached(step))
                report = self._take_steps(step, epoch)
            self._tell_profile(written=self._profiler.close())
            if not stopped:
                self._validation.evaluate(step)
                self._save_now(step)
                self._validation.write_predictions(step)
        self._saver.close()
        self._stepper.loop.close()
        self._rank_data.close()
        reporter.close()
        if stopped:
            reporter.stopped(step)
            return 128 + max(number or 0 for number in self._world.gather(stop.signal))
        reporter.finished(step, self._result(step))
        self._export(step)
        return 0

    def _restore(self) -> int:
        """Restore the newest valid checkpoint, if there is one; return its step, else 0."""
        if self._folder.exists:
            self._saver.claim()
        meta = self._saver.restore()
        if meta is None:
            return 0
        self._totals.restore(meta)
        self._validation.restore(meta)
        return int(meta["step"])

    def _already_done(self, step: int) -> int:
        """Finish a run that has taken all its steps but may have been killed before its result."""
        if self._world.broadcast(self._folder.finished_at(step)):
            self._reporter.console.say(f"{self._folder.path}: is finished already, see result.json")
            if self._chief and exported_step(self._folder.path) != step:
                # Killed before it was exported, or not wanted then.
                self._export(step)
            return 0
        with self._reporter.mlflow:
            self._open(step)
            self._validation.evaluate(step)
            self._validation.write_predictions(step)
        self._reporter.close()
        self._reporter.finished(step, self._result(step))
        self._export(step)
        return 0

    def _open(self, step: int, transport: Transport | None = None) -> None:
        self._reporter.open(step, self._startup.record(transport))

    def _tell_transport(self) -> Transport | None:
        """Print the transport that NCCL has chosen, which is known after the first step."""
        transport = self._nccl.transport() if self._nccl else None
        if transport is not None:
            self._reporter.console.say(f"  {transport.words(len(self._startup.nodes))}")
            self._warn(self._startup.warning_after(transport))
        return transport

    def _warn(self, text: str) -> None:
        """Print a warning of a run that should use InfiniBand, once for all ranks."""
        if text and self._chief and self._config.exchange.infiniband:
            print(text, file=sys.stderr, flush=True)

    def _compile(self, step: int) -> LoopReport:
        report, seconds = self._stepper.take(step, 1, "compile", self._tick)
        self._reporter.console.say(f"compiled and took the first step in {seconds:.1f} s")
        return report

    def _take_steps(self, step: int, epoch: int) -> LoopReport:
        """Take steps until something is due: a report, an evaluation, a save or a stop."""
        config, plan = self._config, self._plan
        to_log = config.log.every_steps - step % config.log.every_steps
        end = min(plan.epoch_end(epoch + 1), plan.last_step)
        count = min(config.compute.steps_per_loop, to_log, end - step)
        count = self._profiler.limit_steps(step, self._saver.limit_steps(step, count))
        report, _ = self._stepper.take(step, count, "train", self._tick)
        return report

    def _tick(self, step: int) -> None:
        loop = self._stepper.loop
        self._watchdog.beat(step, arrived=loop.arrived)
        if self._saver.urgent:
            loop.request_pause()
        self._reporter.console.progress(step)

    def _roll_back(self, step: int) -> int:
        """Restore the newest checkpoint, and continue with the images after those of the bad step.

        Returns:
            The step of that checkpoint.
        """
        policy, totals = self._config.checkpoint, self._totals
        meta = None
        if policy.on_non_finite == "roll-back" and totals.rollbacks < policy.rollbacks:
            meta = self._saver.restore()
        if meta is None:
            self._give_up(step - 1)
        back = int(meta["step"])
        totals.roll_back(step, back)
        self._stepper.rewind(back)
        self._validation.restore(meta)
        left_out = (step - back) * self._plan.global_batch
        self._reporter.rolled_back(step, back, left_out, totals.rollbacks)
        return back

    def _give_up(self, bad_step: int) -> NoReturn:
        ranks = self._stepper.loop.bad_ranks()
        where = f"rank {', '.join(map(str, ranks))}" if ranks else "the sum over ranks"
        if len(ranks) == self._world.size > 1:
            # A single weight that is not finite affects the next loss of every rank.
            where = "every rank, of this step or the one before,"
        checkpoint = self._folder.checkpoints.newest() if self._chief else None
        path = self._world.broadcast(str(checkpoint.path) if checkpoint else None)
        good = f"the last good checkpoint is {path}" if path else "nothing is saved yet"
        if self._totals.rollbacks:
            good += f"; rolled back {self._totals.rollbacks} times already"
        raise NonFiniteError(
            f"step {bad_step}: the loss or a gradient of {where} is not finite; {good}. A lower"
            " --optimizer.learning-rate or a longer --optimizer.warmup-epochs usually helps"
        )

    def _end_epoch(self, epoch: int, step: int) -> None:
        every = self._config.evaluation.every_epochs
        if every and epoch % every == 0:
            self._validation.evaluate(step)

    def _save_if_due(self, step: int, epoch: int | None) -> None:
        """Save in the background if a save is due."""
        self._report_saved()
        if self._saver.due(step, epoch) and self._chief:
            with self._totals.timer.phase("checkpoint"):
                self._saver.save(step)

    def _save_now(self, step: int) -> None:
        """Save, and wait until it is on disk."""
        if self._chief:
            with self._totals.timer.phase("checkpoint"):
                self._saver.save_now(step)
            self._report_saved()

    def _report_saved(self) -> None:
        for saved in self._saver.landed():
            self._reporter.checkpoint(saved, self._totals.timer.by_phase)

    def _tell_profile(self, *, written: bool) -> None:
        if written:
            self._reporter.console.say(
                f"the profile is in {self._profiler.folder}; to view it, run: make profile"
                f" RUN={self._folder.path}"
            )

    def _result(self, step: int) -> dict[str, Any]:
        evaluation, totals = self._validation.latest, self._totals
        return {
            "top1": evaluation.top1 if evaluation else None,
            "top5": evaluation.top5 if evaluation else None,
            "examples": evaluation.examples if evaluation else 0,
            "training_seconds": self._validation.seconds if evaluation else totals.timer.total,
            "images_per_second": totals.images_per_second,
            "ranks": self._plan.ranks,
            "steps": step,
            "epochs": self._plan.epoch_of(step),
            "attempts": self._reporter.attempt,
            "best": self._validation.best,
            "seconds": totals.timer.by_phase,
        }

    def _export(self, step: int) -> None:
        """Export the model on rank 0; the other ranks do not wait for it."""
        if self._chief and self._config.export:
            self._reporter.console.say("exporting the model")
            evaluation = self._validation.latest
            path = export_model(
                self._folder,
                self._setup.record,
                self._stepper.model,
                step,
                vars(evaluation) if evaluation else None,
            )
            self._reporter.console.say(
                f"the model is in {path}; to use it, run: python -m trainer predict IMAGE..."
                f" --run {self._folder.path}"
            )


def _set_up(config: TrainConfig, communicator: Communicator) -> RunSetup:
    """Set up the run on all ranks; raise configuration and data errors here, before a network is
    built or a file written.
    """
    if communicator.local_rank == 0:
        write_digits_if_missing(config)
    communicator.barrier()
    name = communicator.broadcast(run_name(config))
    setup = set_up(config, communicator.size, name)
    if communicator.rank == 0:
        warn(setup.data_set, communicator.local_size)
    return setup
