"""One attempt of a run, from top to bottom."""

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.data.rank_data import Feed
from trainer.diagnostics.device import cuda_build, device_name, peak_flops, share_of_cores
from trainer.diagnostics.nccl import NcclLog, Transport
from trainer.diagnostics.profiler import Profiler
from trainer.diagnostics.startup import Startup
from trainer.distributed.horovod import Communicator
from trainer.distributed.signals import StopRequest
from trainer.distributed.watchdog import Watchdog
from trainer.errors import NonFiniteError
from trainer.export.saved_model import export_model, exported_step
from trainer.loggers.reporter import Reporter
from trainer.model.resnet import build_resnet, training_flops_per_image
from trainer.run_folder import RunFolder, check_continues, model_facts, new_name
from trainer.training.checkpointing import Saver
from trainer.training.evaluator import Evaluator
from trainer.training.loop import Loop, LoopReport
from trainer.training.metrics import Chrono, Interval, Phase
from trainer.training.optimizer import Momentum
from trainer.training.schedule import learning_rate
from trainer.training.setup import ensure_data, prepare, warn
from trainer.training.totals import Progress
from trainer.training.validation import DATA_ERRORS, HeldOut


class Training:
    """One attempt of a run."""

    def __init__(
        self,
        config: TrainConfig,
        communicator: Communicator,
        watchdog: Watchdog,
        nccl: NcclLog | None = None,
    ) -> None:
        """`nccl` is where this rank's NCCL writes, if it is asked to."""
        self._world, self._watchdog, self._nccl = communicator, watchdog, nccl
        self._chief = communicator.rank == 0

        # What can be refused is refused first, before a network is built or a file written.
        if communicator.local_rank == 0:
            ensure_data(config)
        communicator.barrier()
        self._prepared = prepare(config, communicator.size)
        self._plan = self._prepared.plan
        now = datetime.now().astimezone()
        name = communicator.broadcast(config.name or new_name(config, now))
        self._config = config = replace(config, name=name)
        self._folder = RunFolder(Path(config.runs_dir) / name)
        watchdog.share(self._folder.path)
        data_version = self._prepared.data_version
        changes = check_continues(self._folder, config, self._plan.global_batch, data_version)
        if self._chief:
            warn(self._prepared, communicator.local_size)
        self._saver = Saver(config.checkpoint, self._folder.checkpoints, communicator)
        if self._folder.exists:
            self._saver.claim()

        threads = config.data.decode_threads or share_of_cores(communicator)
        self._feed = Feed(config, self._prepared, communicator, threads)
        normalization = self._prepared.normalization
        precision, xla = config.compute.precision, config.compute.xla
        self._model = build_resnet(config.model, self._prepared.classes, precision, config.seed)
        self._optimizer = Momentum(self._model.trainable_variables, config.optimizer)
        self._loop = Loop(
            self._model, self._optimizer, communicator, normalization, config, self._feed.next_batch
        )
        self._flops = training_flops_per_image(self._model)
        self._peak = peak_flops(device_name(), precision)
        self._startup = startup = Startup.gather(
            communicator, device_name(), self._folder.path, cuda_build()
        )
        self._reporter = Reporter(
            config, self._plan, self._folder, chief=self._chief, gpus=startup.gpus, changes=changes
        )
        self._held_out = HeldOut(
            Evaluator(self._model, communicator, normalization, xla=xla),
            self._feed,
            self._prepared,
            communicator,
            self._reporter,
            watchdog.alive,
        )
        self._interval = Interval(communicator.size)
        self._profiler = Profiler(
            config.profile_span, self._folder.path / "profile", chief=self._chief
        )

        self._progress = Progress(Chrono(watch=watchdog.phase))

    def run(self, stop: StopRequest) -> int:
        """Restore, train to the last step, evaluate and save; or stop early and save.

        Returns:
            0, or 128 + the signal that asked any rank to stop.
        """
        step, plan = self._restore(), self._plan
        if step >= plan.last_step:
            return self._already_done(step)
        # The data go on at the position of that step.
        self._feed.open(self._progress.batches(step))
        stop.attach(self._loop.request_stop)
        epoch, stopped = int(plan.epoch_of(step)), False
        with self._reporter.console, self._reporter.tracking:
            self._reporter.headline(step, self._prepared.classes, self._startup.lines())
            self._warn(self._startup.warning())
            # Tracing and compiling happen in the first step, which is taken and timed on its own.
            report = self._take_steps(step, 1, "compile")
            transport = self._tell_transport()
            self._open(step, transport)
            self._saver.begin(self._state())
            while True:
                step += report.steps
                if report.bad_step is not None:
                    step = self._roll_back(step)
                    epoch = int(plan.epoch_of(step))
                    report = self._take_steps(step, self._steps_ahead(step, epoch), "train")
                    continue
                stopped = report.stopped
                done = step >= plan.last_step or stopped
                if stopped:
                    # First of all, as there may be a second left.
                    self._reporter.stopping(step, self._saver.newest)
                    self._save(step, at_once=True)
                if step % self._config.log.every_steps == 0 or done:
                    self._log(step)
                if done:
                    break
                ended = None
                while plan.epoch_end(epoch + 1) <= step:
                    ended = epoch = epoch + 1
                    self._end_epoch(epoch, step)
                self._save_if_due(step, ended)
                self._profile(step)
                report = self._take_steps(step, self._steps_ahead(step, epoch), "train")
            self._profile(step, last=True)
            if not stopped:
                self._held_out.evaluate(step, self._progress.chrono)
                self._save(step, at_once=True)
                self._held_out.write_predictions(step)
        self._saver.close()
        self._loop.close()
        self._feed.close()
        self._reporter.close()
        if stopped:
            self._reporter.stopped(step)
            return 128 + max(number or 0 for number in self._world.gather(stop.signal))
        self._reporter.finished(step, self._result(step))
        self._export(step)
        return 0

    def _already_done(self, step: int) -> int:
        """Nothing is left to train; the result may be, if the run was killed just before it."""
        if self._world.broadcast(self._folder.finished_at(step)):
            self._reporter.console.say(f"{self._folder.path}: is finished already, see result.json")
            if self._chief and exported_step(self._folder.path) != step:
                # Killed before it was exported, or not wanted then.
                self._export(step)
            return 0
        with self._reporter.tracking:
            self._open(step)
            self._held_out.evaluate(step, self._progress.chrono)
            self._held_out.write_predictions(step)
        self._reporter.close()
        self._reporter.finished(step, self._result(step))
        self._export(step)
        return 0

    def _open(self, step: int, transport: Transport | None = None) -> None:
        prepared = self._prepared
        facts = model_facts(prepared.class_names, prepared.normalization)
        record = self._startup.record(transport)
        self._reporter.open(step, prepared.data_version, facts, record)

    def _tell_transport(self) -> Transport | None:
        """Say how NCCL sends, which it has chosen by the end of the first step."""
        transport = self._nccl.transport() if self._nccl else None
        if transport is not None:
            self._reporter.console.say(f"  {transport.words(len(self._startup.nodes))}")
            self._warn(self._startup.warning_after(transport))
        return transport

    def _warn(self, text: str) -> None:
        """Print what concerns a run that is meant to go over InfiniBand, once for all ranks."""
        if text and self._chief and self._config.exchange.infiniband:
            print(text, file=sys.stderr, flush=True)

    def _restore(self) -> int:
        """Continue from the newest valid checkpoint, if there is one; returns its step."""
        meta = self._saver.restore(self._state())
        if meta is None:
            return 0
        self._progress = Progress.restored(meta, self._watchdog.phase)
        self._held_out.restore(meta, self._progress.chrono.total)
        return int(meta["step"])

    def _roll_back(self, step: int) -> int:
        """Go back to the newest checkpoint, and on with the images after those of the bad step.

        The totals of time stay, as it has been spent.

        Returns:
            The step of that checkpoint.
        """
        policy = self._config.checkpoint
        # Of the images up to here, wherever in the data they are.
        used = self._progress.batches(step)
        meta = None
        if policy.on_non_finite == "roll-back" and self._progress.roll_backs < policy.roll_backs:
            meta = self._saver.restore(self._state())
        if meta is None:
            self._give_up(step - 1)
        back = int(meta["step"])
        self._progress.skipped_batches = used - back
        self._progress.roll_backs += 1
        self._loop.rewind(back)
        self._interval.reset()
        self._held_out.restore(meta, self._progress.chrono.total)
        left_out = (step - back) * self._plan.global_batch
        self._reporter.rolled_back(step, back, left_out, self._progress.roll_backs)
        return back

    def _steps_ahead(self, step: int, epoch: int) -> int:
        """Steps until Python has something to do."""
        config, plan = self._config, self._plan
        to_log = config.log.every_steps - step % config.log.every_steps
        end = min(plan.epoch_end(epoch + 1), plan.last_step)
        wanted = min(config.compute.steps_per_loop, to_log, end - step)
        return self._profiler.steps_ahead(step, self._saver.steps_ahead(step, wanted))

    def _profile(self, step: int, *, last: bool = False) -> None:
        """Begin or end the trace that `--profile-steps` asks for, if it is time to."""
        if self._profiler.close() if last else self._profiler.reached(step):
            self._reporter.console.say(
                f"the profile is in {self._profiler.folder}; to look at it: make profile"
                f" RUN={self._folder.path}"
            )

    def _take_steps(self, step: int, count: int, phase: Phase) -> LoopReport:
        rates = [learning_rate(step + ahead, self._plan.schedule) for ahead in range(count)]
        before = self._progress.chrono.seconds(phase)
        try:
            with self._progress.chrono.phase(phase):
                report = self._loop.run(rates, self._tick, step)
        except DATA_ERRORS as error:
            batches = self._progress.batches(int(self._loop.step.numpy()))
            self._feed.explain_training(error, batches)
            raise
        finally:
            self._watchdog.beat(int(self._loop.step.numpy()), arrived=False)
        seconds = self._progress.chrono.seconds(phase) - before
        images = report.steps * self._plan.global_batch
        if phase == "train":
            self._progress.timed_images += images
            self._interval.add(report, seconds, images)
        else:
            self._reporter.console.say(f"compiled, and took the first step, in {seconds:.1f} s")
            self._interval.add(report, None, images)
        return report

    def _tick(self, step: int) -> None:
        self._watchdog.beat(step, arrived=self._loop.arrived)
        if self._saver.urgent:
            self._loop.request_pause()
        self._reporter.console.progress(step)

    def _give_up(self, bad_step: int) -> NoReturn:
        ranks = self._loop.bad_ranks()
        where = f"rank {', '.join(map(str, ranks))}" if ranks else "the sum over ranks"
        if len(ranks) == self._world.size > 1:
            # What breaks only its own weight shows in everyone's next loss.
            where = "every rank, of this step or the one before,"
        found = self._folder.checkpoints.newest() if self._chief else None
        path = self._world.broadcast(str(found.path) if found else None)
        good = f"the last good checkpoint is {path}" if path else "nothing is saved yet"
        if self._progress.roll_backs:
            good += f"; rolled back {self._progress.roll_backs} times already"
        raise NonFiniteError(
            f"step {bad_step}: the loss or a gradient of {where} is not finite; {good}. A lower"
            " --optimizer.learning-rate or a longer --optimizer.warmup-epochs usually helps"
        )

    def _log(self, step: int) -> None:
        values = self._interval.summary(self._flops, self._peak)
        self._interval.reset()
        values["learning_rate"] = learning_rate(step - 1, self._plan.schedule)
        if self._config.compute.precision == "mixed_float16":
            values["loss_scale"] = float(self._loop.loss_scale.numpy())
        self._reporter.training(step, values)

    def _end_epoch(self, epoch: int, step: int) -> None:
        every = self._config.evaluation.every_epochs
        if every and epoch % every == 0:
            self._held_out.evaluate(step, self._progress.chrono)

    def _export(self, step: int) -> None:
        """Write the model for use elsewhere; the other ranks need not wait for it."""
        if self._chief and self._config.export:
            self._reporter.console.say("exporting the model")
            evaluation = self._held_out.latest
            path = export_model(
                self._folder, self._config, self._prepared, self._model, step, evaluation
            )
            self._reporter.console.say(
                f"the model is in {path}; to use it: python -m trainer predict IMAGE..."
                f" --run {self._folder.path}"
            )

    def _save_if_due(self, step: int, epoch: int | None) -> None:
        for saved in self._saver.landed():
            self._reporter.checkpoint(saved, self._progress.chrono.totals)
        if self._saver.due(step, epoch):
            self._save(step)

    def _save(self, step: int, *, at_once: bool = False) -> None:
        """Save, in the background unless it is to be on disk at once."""
        if not self._chief:
            return
        evaluation = self._held_out.at(step)
        with self._progress.chrono.phase("checkpoint"):
            meta = {
                **self._folder.stored(),
                **self._progress.to_meta(),
                "position": self._progress.batches(step) * self._plan.global_batch,
                "evaluation": vars(evaluation) if evaluation else None,
                "best": self._held_out.best,
            }
            save = self._saver.save_now if at_once else self._saver.save
            save(step, self._state(), meta)
        if at_once:
            for saved in self._saver.landed():
                self._reporter.checkpoint(saved, self._progress.chrono.totals)

    def _state(self) -> dict[str, tf.Variable]:
        """Every variable that decides the future, by name."""
        model = {f"model/{v.name.removesuffix(':0')}": v for v in self._model.variables}
        names = [v.name.removesuffix(":0") for v in self._model.trainable_variables]
        slots = zip(names, self._optimizer.slots, strict=True)
        return {**model, **{f"momentum/{name}": s for name, s in slots}, **self._loop.state}

    def _result(self, step: int) -> dict[str, object]:
        evaluation, progress = self._held_out.latest, self._progress
        return {
            "top1": evaluation.top1 if evaluation else None,
            "top5": evaluation.top5 if evaluation else None,
            "examples": evaluation.examples if evaluation else 0,
            "training_seconds": self._held_out.seconds if evaluation else progress.chrono.total,
            "images_per_second": progress.images_per_second,
            "ranks": self._plan.ranks,
            "steps": step,
            "epochs": self._plan.epoch_of(step),
            "attempts": self._reporter.attempt,
            "best": self._held_out.best,
            "seconds": progress.chrono.totals,
        }
