"""A run, from top to bottom.

join the world that the launcher started
set up: data set, plan, run folder       refuse what cannot work before anything is built
build network, loop and watchdog
restore the newest checkpoint            if the run exists
take the first step                      which traces and compiles
until the last step, or a request to stop:
    report, evaluate and save            whatever is due
    take steps                           until something is due again
    stop, or go back to a checkpoint     if a loss or gradient was not finite
evaluate, save, write predictions and result, export the model
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from common.errors import UserError
from common.program import installed
from common.text import plural
from trainer.config import TrainConfig
from trainer.data.rank_data import RankData
from trainer.diagnostics.debugger import patient, wait_for_debugger
from trainer.diagnostics.device import computing_threads, set_up_device, share_of_cores
from trainer.diagnostics.nccl import NcclLog, Transport, nccl_log
from trainer.diagnostics.startup_report import StartupReport
from trainer.distributed import signals
from trainer.distributed.communicator import Communicator
from trainer.distributed.failures import tell_failure
from trainer.distributed.horovod import connect
from trainer.distributed.launcher import end_with_launcher, keep_freed_memory
from trainer.distributed.rank import launched_as
from trainer.distributed.request_listener import RequestListener
from trainer.distributed.watchdog import Watchdog
from trainer.errors import STOP_SIGNALS, TIME_LIMIT_STATUS
from trainer.export.exporter import export_model, exported_step
from trainer.loggers.observer import Observed, around, observers
from trainer.tasks.task import make_task
from trainer.training.checkpointing import Saver
from trainer.training.evaluator import Evaluator
from trainer.training.loop import LoopReport
from trainer.training.lost_peers import naming_lost_peers
from trainer.training.metrics import PhaseTimer, Totals
from trainer.training.plan import passed
from trainer.training.reporter import Reporter, not_finite
from trainer.training.setup import set_up_ranks
from trainer.training.stepper import Stepper
from trainer.training.validation import Validation


def train(config: TrainConfig) -> int:
    """Train, evaluate and save, as one rank of the world that the launcher started.

    Returns:
        0, or 128 + the signal that asked the run to stop, or `TIME_LIMIT_STATUS`.

    Raises:
        UserError: The training failed; says why and what to do.
    """
    begun = time.monotonic()
    end_with_launcher()
    keep_freed_memory()
    config = patient(config, os.environ)
    launched = launched_as(os.environ)
    with (
        Watchdog(config.watchdog, launched) as watchdog,
        RequestListener(watchdog, launched) as requests,
        nccl_log(launched) as nccl,
    ):
        if nccl is not None:
            watchdog.last_words = nccl.last_words
        if config.name is not None:
            # Before the start of Horovod, which may hang as well.
            requests.listen(Path(config.runs_dir) / config.name)
        try:
            return _train(config, watchdog, requests, nccl, begun)
        except Exception as error:
            tell_failure(error, watchdog.step)
            raise


def _train(
    config: TrainConfig,
    watchdog: Watchdog,
    requests: RequestListener,
    nccl: NcclLog | None,
    begun: float,
) -> int:
    # Horovod's start waits for the other ranks in C, where no Python signal handler would run.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    communicator = connect(config.exchange, config.strategy.neighbours)
    (stop := signals.StopRequest()).install()
    if signals.started_by_mpirun(os.environ):
        signals.listen_for_mpirun()
    set_up_device(config, communicator, config.strategy.devices)
    with naming_lost_peers(communicator.rank):
        attempt = Attempt(config, communicator, watchdog, requests, nccl, begun)
    status = attempt.run(stop)
    stop.detach()
    # The data sets call Python while they shut down, so they must end before Python does.
    gc.collect()
    communicator.shutdown()
    return status


class Attempt:
    """One attempt of a run, on one rank."""

    def __init__(
        self,
        config: TrainConfig,
        communicator: Communicator,
        watchdog: Watchdog,
        requests: RequestListener,
        nccl: NcclLog | None = None,
        begun: float | None = None,
    ) -> None:
        """Args:
        config: Configuration of the run.
        communicator: World of ranks.
        watchdog: Watchdog of this rank.
        requests: Answers requests to this rank.
        nccl: Log of this rank's NCCL, if it writes one.
        begun: Start of the attempt by the monotonic clock, in seconds; None is now.
        """
        self._begun = time.monotonic() if begun is None else begun
        self._out_of_time = self._stopped = False
        self._world, self._watchdog, self._nccl = communicator, watchdog, nccl
        self._chief = communicator.rank == 0
        self._setup = setup = set_up_ranks(
            config, communicator, computing_threads(config, communicator)
        )
        self._config, self._plan, self._folder = setup.config, setup.plan, setup.folder
        watchdog.share(setup.folder.path)
        requests.listen(setup.folder.path)

        timer = PhaseTimer(watchdog.phase)
        self._totals = Totals(timer, setup.plan.global_batch)
        threads = setup.config.data.decode_threads or share_of_cores(communicator)
        task = make_task(setup.config, setup.data_set.classes)
        data_set = setup.data_set
        self._rank_data = RankData(setup.config, data_set, communicator, threads)
        self._stepper = Stepper(setup, task, communicator, self._rank_data, self._totals, watchdog)
        self._setup = setup = setup.built(getattr(self._stepper.model, "graph_digest", None))
        self._startup = StartupReport.gather(communicator, setup.folder.path)
        self._reporter = reporter = Reporter(setup, chief=self._chief)
        self._observers = reporter.observers = observers(
            Observed(
                setup.config,
                setup.folder.path,
                communicator,
                setup.plan.equal_after,
                requests,
                reporter.console.say,
            )
        )
        normalization, xla = data_set.normalization, setup.config.compute.xla
        task, model = self._stepper.task, self._stepper.model
        evaluator = Evaluator(task, model, communicator, normalization, xla=xla)
        self._validation = Validation(
            task, evaluator, self._rank_data, setup, communicator, reporter, timer,
            watchdog.alive, shown=setup.config.log.keeps_images,
        )  # fmt: skip
        record = setup.record.to_json()
        self._saver = Saver(
            setup.config.checkpoint,
            setup.folder.checkpoints,
            communicator,
            self._stepper.state,
            [
                lambda _: record,
                self._totals.to_meta,
                self._validation.to_meta,
                lambda step: self._rank_data.to_meta(self._totals.position(step)),
            ],
            self._stepper.divided,
        )

    def run(self, stop: signals.StopRequest) -> int:
        """Restore, train to the last step, evaluate and save; or stop early and save.

        Returns:
            0, or 128 + the signal that asked any rank to stop, or `TIME_LIMIT_STATUS`.
        """
        try:
            with naming_lost_peers(self._world.rank):
                status = self._run(stop)
        except BaseException as error:
            for observer in self._observers:
                observer.end(getattr(error, "exit_code", UserError.exit_code), failed=True)
            raise
        for observer in self._observers:
            observer.end(status, failed=False)
        return status

    def _run(self, stop: signals.StopRequest) -> int:
        step, reporter = self._restore(), self._reporter
        if step >= self._plan.last_step or self._validation.ended:
            return self._already_done(step)
        # The data continue at the position of that step.
        self._rank_data.open(self._totals.position(step))
        stop.attach(self._stepper.loop.request_stop)
        with reporter.console:
            before = self._folder.metrics.environment() if self._chief else None
            notes = self._startup.notes(self._config.compute, before)
            machine = self._startup.lines(detail=reporter.console.detail)
            reporter.headline(step, [*machine, *notes])
            self._warn(self._startup.warning())
            wait_for_debugger(self._world, os.environ, self._watchdog.alive, stop)
            result_step = step = self._take_all(step)
            self._observe(step, last=True)
            if not self._stopped:
                self._validation.evaluate(step)
                self._save_now(step)
                self._stopped = any(self._world.gather(stop.signal is not None))
            if not self._stopped:
                result_step = self._restore_result(step)
                self._validation.write_predictions(result_step)
        for part in (self._saver, self._stepper.loop, self._rank_data, reporter):
            part.close()
        if self._stopped:
            reporter.stopped(step)
            number = max(number or 0 for number in self._world.gather(stop.signal))
            return 128 + number if number else TIME_LIMIT_STATUS
        reporter.finished(step, self._result(step, result_step), self._validation.latest)
        self._export(result_step)
        return 0

    def _take_all(self, step: int) -> int:
        """Take steps until the run ends, or is asked to stop; return the steps done."""
        plan, reporter, epoch = self._plan, self._reporter, int(self._plan.epoch_of(step))
        report = self._take_first(step, epoch)
        while report is not None:
            step += report.steps
            if report.bad_step is not None:
                step = self._roll_back_or_stop(step)
                epoch = int(plan.epoch_of(step))
                report = self._take_steps(step, epoch)
                continue
            self._stopped = report.stopped
            done = step >= plan.last_step or self._stopped
            if self._stopped:
                # Before anything else, because only a second may be left.
                reporter.stopping(step, self._saver.newest, out_of_time=self._out_of_time)
                self._save_now(step)
            if passed(self._config.log.every_steps, step, report.steps) or done:
                reporter.training(step, self._stepper.summary(step))
            if done:
                break
            # A call ends several epochs if the ranks are equal less often than that.
            over = []
            while plan.epoch_end(epoch + 1) <= step:
                epoch += 1
                over.append(epoch)
            ended = any(self._validation.end_epoch(number, step) for number in over)
            self._save_if_due(step, over, report.steps)
            self._observe(step, paused=report.paused)
            report = None if ended else self._take_steps(step, epoch)
        return step

    def _take_first(self, step: int, epoch: int) -> LoopReport | None:
        """Take the first step, and open the run; return None if an evaluation ends it before."""
        # An attempt that was stopped after the last step of an epoch did not evaluate it.
        end = self._plan.equal_after(self._plan.epoch_end(epoch))
        missed = 0 < step == end and self._validation.is_due(epoch, step)
        if missed:
            self._open(step)
            self._saver.begin()
            ended = self._validation.end_epoch(epoch, step)
            self._save_now(step)
            if ended:
                return None
        # The first step traces and compiles, so it is taken and timed on its own.
        report, transport = self._compile(step), self._tell_transport()
        if not missed:
            self._open(step, transport)
            self._saver.begin()
        return report

    def _observe(self, step: int, *, paused: bool = False, last: bool = False) -> None:
        for observer in self._observers:
            observer.after(step, paused=paused, last=last)

    def _restore(self) -> int:
        """Restore the newest valid checkpoint, if there is one; return its step, else 0."""
        if self._folder.exists:
            self._saver.claim()
        meta = self._saver.restore()
        if meta is None:
            return 0
        self._totals.restore(meta)
        self._validation.restore(meta)
        self._rank_data.restore(meta)
        return int(meta["step"])

    def _already_done(self, step: int) -> int:
        """Finish a run that has taken all its steps but may have been killed before its result."""
        finished = self._world.broadcast(self._folder.finished_at(step))
        if not finished:
            self._open(step)
            self._validation.evaluate(step)
        result_step = self._restore_result(step)
        if finished:
            self._reporter.console.say(f"{self._folder.path}: is finished already, see result.json")
            if self._chief and exported_step(self._folder.path) != result_step:
                # Killed before it was exported, or not wanted then.
                self._export(result_step)
            return 0
        self._validation.write_predictions(result_step)
        self._reporter.close()
        self._reporter.finished(step, self._result(step, result_step), self._validation.latest)
        self._export(result_step)
        return 0

    def _restore_result(self, step: int) -> int:
        """Restore the weights that the result is of; return their step. All ranks call it."""
        meta = self._saver.restore("best") if self._config.result_of == "best" else None
        if meta is not None:
            self._validation.restore(meta)
        return int(meta["step"]) if meta else step

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
        context = around(self._observers, step)
        report, seconds = self._stepper.take(step, 1, "compile", self._tick, context)
        first = "step" if report.steps == 1 else plural(report.steps, "step")
        self._reporter.console.say(f"compiled and took the first {first} in {seconds:.1f} s")
        self._reporter.console.begin(step + report.steps)
        return report

    def _take_steps(self, step: int, epoch: int) -> LoopReport:
        """Take steps until something is due: a report, an evaluation, a save or a stop."""
        # The loop calls `_tick` only in calls that take a while.
        self._watch_time()
        config, plan = self._config, self._plan
        to_log = config.log.every_steps - step % config.log.every_steps
        end = min(plan.epoch_end(epoch + 1), plan.last_step)
        count = min(config.compute.steps_per_loop, to_log, end - step)
        count = self._saver.limit_steps(step, count)
        for observer in self._observers:
            count = observer.limit_steps(step, count)
        self._pause_if_urgent()
        context = around(self._observers, step)
        return self._stepper.take(step, count, "train", self._tick, context)[0]

    def _tick(self, step: int) -> None:
        self._watchdog.beat(step, arrived=self._stepper.loop.arrived)
        self._watch_time()
        self._pause_if_urgent()
        self._reporter.console.progress(step)

    def _watch_time(self) -> None:
        """Ask all ranks to stop once the attempt has used up its time, by the clock of rank 0."""
        limit, seconds = self._config.max_seconds, time.monotonic() - self._begun
        if limit is not None and seconds >= limit and self._chief and not self._out_of_time:
            self._out_of_time = True
            self._stepper.loop.request_stop()

    def _pause_if_urgent(self) -> None:
        if self._saver.urgent or any(observer.urgent for observer in self._observers):
            self._stepper.loop.request_pause()

    def _roll_back_or_stop(self, step: int) -> int:
        """Restore the newest checkpoint, and continue with the images after those of the bad step;
        end the run if its options ask for that, or there is no checkpoint or no roll-back left.

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
        images = (step - back) * self._plan.global_batch
        self._reporter.rolled_back(step, back, images, totals.rollbacks)
        return back

    def _give_up(self, bad_step: int) -> NoReturn:
        ranks, rollbacks = self._stepper.loop.bad_ranks(), self._totals.rollbacks
        checkpoint = self._folder.checkpoints.newest() if self._chief else None
        path = self._world.broadcast(str(checkpoint.path) if checkpoint else None)
        raise not_finite(bad_step, ranks, self._world.size, path, rollbacks)

    def _save_if_due(self, step: int, epochs: Sequence[int], taken: int) -> None:
        """Save in the background if a save is due."""
        self._report_saved()
        if self._saver.due(step, epochs, taken):
            with self._totals.timer.phase("checkpoint"):
                self._saver.save(step)

    def _save_now(self, step: int) -> None:
        """Save, and wait until it is on disk."""
        with self._totals.timer.phase("checkpoint"):
            self._saver.save_now(step)
        self._report_saved()

    def _report_saved(self) -> None:
        for saved in self._saver.landed():
            self._reporter.checkpoint(saved, self._totals.timer.by_phase)

    def _result(self, step: int, of: int) -> dict[str, Any]:
        evaluation, totals = self._validation.latest, self._totals
        return {
            **self._validation.result(of),
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
                self._stepper.weights,
                step,
                evaluation.to_json() if evaluation else None,
            )
            self._reporter.console.say(
                f"the model is in {path}; to use it, run: {installed('ml-trainer')} predict"
                f" IMAGE... --run {self._folder.path}"
            )
