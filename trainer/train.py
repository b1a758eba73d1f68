"""One training run, from top to bottom."""

import os
import signal
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Any

import tensorflow as tf
import tf_keras as keras

from trainer.checkpoint import Checkpoint, restore, snapshot
from trainer.config import TrainConfig
from trainer.console import Console
from trainer.data.manifest import Manifest
from trainer.data.pipeline import (
    evaluation_batches,
    find_damage,
    make_order,
    synthetic_batch,
    training_batches,
)
from trainer.data.source import Source
from trainer.distributed import Communicator, connect
from trainer.errors import DataError, NonFiniteError, PeerError
from trainer.evaluate import Evaluation, Evaluator
from trainer.launch import end_with_launcher
from trainer.loop import Loop, LoopReport, Statistics
from trainer.metrics import Chrono, Interval, peak_flops
from trainer.model.resnet import build_resnet, training_flops_per_image
from trainer.optimizer import Momentum
from trainer.preflight import Prepared, cores, ensure_data, prepare, warn
from trainer.run import RunFolder, check_continues, new_name
from trainer.schedule import learning_rate


class StopRequest:
    """SIGINT and SIGTERM: the first asks the loop to stop, a second SIGINT ends the process."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._loop: Loop | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def attach(self, loop: Loop) -> None:
        """Name the loop to stop; it stops at once if the signal came before."""
        self._loop = loop
        if self.signal is not None:
            loop.request_stop()

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            os._exit(128 + number)
        self.signal = number
        print("stopping after this step; once more to leave at once", file=sys.stderr, flush=True)
        if self._loop is not None:
            self._loop.request_stop()


def train(config: TrainConfig) -> int:
    """Train, evaluate and save as one rank of the world that the launcher made.

    Returns:
        0, or 128 + the signal that asked the run to stop.

    Raises:
        TrainerError: with what went wrong and what to do.
    """
    stop = StopRequest()
    end_with_launcher()
    communicator = connect(config.exchange)
    try:
        set_up_device(config, communicator)
        status = _Session(config, communicator).run(stop)
        communicator.shutdown()
    except tf.errors.OpError as error:
        if "Horovod" in str(error) or "onnection" in str(error):
            raise PeerError(
                f"rank {communicator.rank}: another rank ended ({error.message.splitlines()[0]})"
            ) from error
        raise
    return status


def set_up_device(config: TrainConfig, communicator: Communicator) -> None:
    """Give this rank its GPU, if there are any, and its share of the cores."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        gpu = gpus[communicator.local_rank % len(gpus)]
        tf.config.set_visible_devices(gpu, "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
    threads = config.compute.threads or share_of_cores(communicator)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


def share_of_cores(communicator: Communicator) -> int:
    """Cores for each rank of this node, at least one."""
    return max(1, cores() // communicator.local_size)


def make_source(config: TrainConfig, prepared: Prepared, split: str) -> Source:
    """A split of the prepared data."""
    assert prepared.manifest is not None and prepared.folder is not None
    return Source(
        prepared.folder,
        prepared.manifest.splits[split],
        prepared.classes,
        config.model.image_size,
        config.data,
        config.seed,
    )


def statistics_of(manifest: Manifest | None) -> Statistics:
    """What inputs are normalised with; for synthetic data the middle and spread of a byte."""
    if manifest is None:
        return Statistics((127.5,) * 3, (73.9,) * 3)
    return Statistics(manifest.mean, manifest.deviation)


class _Session:
    """Everything that one attempt of a run holds."""

    def __init__(self, config: TrainConfig, communicator: Communicator) -> None:
        self.communicator = communicator
        self.chief = communicator.rank == 0

        # What can be refused is refused first, before a network is built or a file written.
        if communicator.local_rank == 0:
            ensure_data(config)
        communicator.gather("data is there")
        self.prepared = prepare(config, communicator.size)
        self.plan = self.prepared.plan
        name = communicator.broadcast(config.name or new_name(config, datetime.now()))
        self.config = config = replace(config, name=name)
        self.folder = RunFolder(Path(config.runs_dir) / name)
        check_continues(self.folder, config, self.plan.global_batch, self.prepared.data_version)
        if self.chief:
            warn(config, self.prepared, communicator.local_size)

        self.model: keras.Model = build_resnet(
            config.model, self.prepared.classes, config.compute.precision, config.seed
        )
        self.optimizer = Momentum(self.model.trainable_variables, config.optimizer)
        self.threads = config.data.decode_threads or share_of_cores(communicator)
        self.statistics = statistics_of(self.prepared.manifest)
        self.loop = Loop(
            self.model, self.optimizer, communicator, self.statistics, config, self._next_batch
        )
        self.evaluator = Evaluator(
            self.model, communicator, self.statistics, xla=config.compute.xla
        )
        self.iterator: Any = None
        self.chrono = Chrono()
        self.interval = Interval(communicator.size)
        self.evaluation: Evaluation | None = None
        self.evaluated_at = self.saved_at = -1
        self.images_timed = 0
        self.attempt = 1
        self.console = Console(self.plan.last_step, silent=not self.chief)
        self.summaries: Any = None
        gpus = tf.config.get_visible_devices("GPU")
        device = tf.config.experimental.get_device_details(gpus[0])["device_name"] if gpus else ""
        self.flops = training_flops_per_image(self.model)
        self.peak = peak_flops(device, config.compute.precision)

    def run(self, stop: StopRequest) -> int:
        """Restore, train to the last step, evaluate, save; or stop early and save."""
        step = self._restore()
        plan, config = self.plan, self.config
        if step >= plan.last_step:
            self.console.say(f"{self.folder.path}: is finished already, see result.json")
            return 0
        self._open_data(step)
        stop.attach(self.loop)
        epoch = int(plan.epoch_of(step))
        stopped, compiled = False, False
        with self.console:
            self.console.say(self._headline(step))
            while step < plan.last_step and not stopped:
                epoch_end = plan.epoch_end(epoch + 1)
                if epoch_end <= step:
                    epoch += 1
                    continue
                # The first call takes one step, so that its time is that of compiling.
                count = self._steps_to(step, epoch_end) if compiled else 1
                report = self._take_steps(step, count, compiled=compiled)
                if not compiled and self.chief:
                    self._open_folder(step)
                compiled = True
                step += report.steps
                stopped = report.stopped
                if step % config.log.every_steps == 0 or step == plan.last_step or stopped:
                    self._log(step)
                if step == epoch_end and not stopped:
                    epoch += 1
                    self._end_epoch(epoch, step)
            if not stopped:
                self._evaluate(step)
            training_seconds = self.chrono.total
            self._save(step)
            status = self._stop_status(stop) if stopped else 0
        self.loop.close()
        if self.chief:
            self._finish(step, training_seconds, status)
        return status

    # What surrounds the steps

    def _restore(self) -> int:
        """Continue from the newest valid checkpoint, if there is one. The order matters:

        1. Every rank has built the same variables, from the seed.
        2. Rank 0 alone looks at the folder and reads, so that ranks cannot disagree.
        3. The step and the totals go to all ranks, then the values of all variables.
        4. The data start at the position of that step (`_open_data`).
        """
        found: Checkpoint | None = self.folder.checkpoints.newest() if self.chief else None
        if found:
            restore(self._state(), found.load(), found.path)
        meta = self.communicator.broadcast(found.meta if found else None)
        self.communicator.broadcast_variables(list(self._state().values()))
        if meta is None:
            return 0
        self.chrono = Chrono(totals=meta["seconds"])
        self.images_timed = meta["images_timed"]
        self.saved_at = meta["step"]
        if meta["top1"] is not None:
            names = ("top1", "top5", "validation_loss", "validation_examples")
            self.evaluation = Evaluation(*(meta[name] for name in names))
            self.evaluated_at = meta["step"]
        return int(meta["step"])

    def _open_data(self, step: int) -> None:
        config, world = self.config, self.communicator
        if self.prepared.manifest is None:
            size = config.model.image_size
            self.batch = synthetic_batch(config.batch_size, size, self.prepared.classes, config.seed)
            return
        source = make_source(config, self.prepared, "train")
        position = step * self.plan.global_batch
        dataset = training_batches(
            source, world.rank, world.size, config.batch_size, position, self.threads
        )
        if tf.config.get_visible_devices("GPU"):
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))
        self.iterator = iter(dataset)

    def _next_batch(self) -> dict[str, Any]:
        return self.batch if self.iterator is None else next(self.iterator)

    def _open_folder(self, step: int) -> None:
        """Write the first files, once the first step has shown that the run works."""
        facts = {"ranks": self.plan.ranks, "global_batch": self.plan.global_batch,
                 "data_version": self.prepared.data_version}  # fmt: skip
        if self.folder.exists:
            self.folder.metrics.rewind(step)
            self.folder.point_latest()
        else:
            self.folder.create(self.config, facts)
        self.attempt = self.folder.metrics.attempts() + 1
        self.folder.metrics.append("start", step, {"attempt": self.attempt, **facts})
        place = self.config.log.tensorboard_dir
        if place is None:
            inside_job = "AZUREML_RUN_ID" in os.environ
            place = "outputs/tblogs" if inside_job else str(self.folder.path / "tblogs")
        self.summaries = tf.summary.create_file_writer(f"{place}/attempt-{self.attempt}")

    def _headline(self, step: int) -> str:
        config, plan = self.config, self.plan
        start = f"continues at step {step}" if step else "starts"
        return (
            f"{self.folder.path}: {start}; ResNet{config.model.depth} of width {config.model.width},"
            f" {config.model.image_size} px, {self.prepared.classes} classes; {plan.examples:,}"
            f" images, {plan.epochs} epochs, {plan.last_step:,} steps of {plan.global_batch} images on"
            f" {plan.ranks} rank{'s' if plan.ranks > 1 else ''}; compiling"
        )

    # Steps

    def _steps_to(self, step: int, epoch_end: int) -> int:
        """Steps to the next thing that Python has to do."""
        to_log = self.config.log.every_steps - step % self.config.log.every_steps
        return min(self.config.compute.steps_per_loop, epoch_end - step, to_log)

    def _take_steps(self, step: int, count: int, *, compiled: bool) -> LoopReport:
        rates = [learning_rate(step + ahead, self.plan.schedule) for ahead in range(count)]
        phase = "train" if compiled else "compile"
        before = self.chrono.seconds(phase)
        try:
            with self.chrono.phase(phase):
                report = self.loop.run(rates, self.console.progress)
        except (
            tf.errors.InvalidArgumentError,
            tf.errors.DataLossError,
            tf.errors.NotFoundError,
            tf.errors.OutOfRangeError,
        ) as error:
            self._explain(error)
            raise
        seconds = self.chrono.seconds(phase) - before
        expected = report.steps * self.plan.global_batch
        if compiled:
            self.images_timed += expected
        else:
            self.console.say(f"compiled, and took the first step, in {seconds:.1f} s")
        self.interval.add(report, seconds if compiled else None, expected)
        if report.bad_step is not None:
            self._give_up(report)
        return report

    def _explain(self, error: tf.errors.OpError) -> None:
        """Turn a failure of the pipeline into one that names the shard and the record."""
        if self.iterator is None:
            return
        source = make_source(self.config, self.prepared, "train")
        world = self.communicator
        order = make_order(source, world.size)
        position = int(self.loop.step.numpy()) * self.plan.global_batch
        ahead = self.config.data.prefetch_batches + 3
        first = position + (world.rank - position) % world.size
        end = position + ahead * self.plan.global_batch + self.threads * world.size
        damage = find_damage(source, order.locate, range(first, end, world.size))
        if damage:
            raise DataError(
                f"{damage} (rank {world.rank}). Mend the data set, or leave such images out with"
                " --data.on-corrupt skip"
            ) from error

    def _give_up(self, report: LoopReport) -> None:
        ranks = self.loop.bad_ranks()
        where = f"rank {', '.join(map(str, ranks))}" if ranks else "the sum over ranks"
        found = self.folder.checkpoints.newest() if self.chief else None
        good = f"the last good checkpoint is {found.path}" if found else "there is no checkpoint yet"
        raise NonFiniteError(
            f"step {report.bad_step}: the loss or a gradient of {where} is not finite; {good}. A"
            " lower --optimizer.learning-rate or a longer --optimizer.warmup-epochs usually helps"
        )

    # Between steps

    def _log(self, step: int) -> None:
        if self.interval.empty:
            return
        values = self.interval.summary(self.flops, self.peak)
        self.interval.reset()
        values["learning_rate"] = learning_rate(step - 1, self.plan.schedule)
        if self.config.compute.precision == "mixed_float16":
            values["loss_scale"] = float(self.loop.loss_scale.numpy())
        epoch = self.plan.epoch_of(step)
        self.console.metrics(step, epoch, values)
        self.console.progress(step)
        self._write("train", step, {"epoch": epoch, **values})

    def _end_epoch(self, epoch: int, step: int) -> None:
        evaluation, checkpoint = self.config.evaluation, self.config.checkpoint
        if evaluation.every_epochs and epoch % evaluation.every_epochs == 0:
            self._evaluate(step)
        if checkpoint.every_epochs and epoch % checkpoint.every_epochs == 0:
            self._save(step)

    def _evaluate(self, step: int) -> None:
        """Evaluate, unless these very weights have been evaluated or there is nothing to see."""
        if self.prepared.manifest is None or self.evaluated_at == step:
            return
        world = self.communicator
        source = make_source(self.config, self.prepared, "validation")
        size = self.config.evaluation.batch_size or self.config.batch_size
        try:
            with self.chrono.phase("evaluation"):
                batches = evaluation_batches(source, world.rank, world.size, size, self.threads)
                result = self.evaluator.run(batches)
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            total = source.split.examples
            places = range(total * world.rank // world.size, total * (world.rank + 1) // world.size)
            damage = find_damage(source, source.locate, places)
            if damage:
                raise DataError(f"{damage} (validation, rank {world.rank})") from error
            raise
        self.evaluation, self.evaluated_at = result, step
        epoch = self.plan.epoch_of(step)
        self.console.say(
            f"step {step:>6}  epoch {epoch:6.2f}  held-out top-1 {result.top1:.2%}  top-5"
            f" {result.top5:.2%}  loss {result.loss:.4f}  ({result.examples:,} images)"
        )
        values = {"top1": result.top1, "top5": result.top5, "validation_loss": result.loss}
        self._write("evaluation", step, {"epoch": epoch, **values})

    def _save(self, step: int) -> None:
        if self.saved_at == step:
            return
        self.saved_at = step
        if not self.chief:
            return
        with self.chrono.phase("checkpoint"):
            fresh = self.evaluation if self.evaluated_at == step else None
            meta = {
                "position": step * self.plan.global_batch,
                "global_batch": self.plan.global_batch,
                "data_version": self.prepared.data_version,
                "attempt": self.attempt,
                "seconds": self.chrono.totals,
                "images_timed": self.images_timed,
                "top1": fresh.top1 if fresh else None,
                "top5": fresh.top5 if fresh else None,
                "validation_loss": fresh.loss if fresh else None,
                "validation_examples": fresh.examples if fresh else None,
                **self.folder.stored(),
            }
            self.folder.checkpoints.save(step, snapshot(self._state()), meta)
            policy = self.config.checkpoint
            self.folder.checkpoints.retain(policy.keep, keep_best=policy.keep_best)

    def _state(self) -> dict[str, tf.Variable]:
        """Every variable that decides the future, by name."""
        model = {f"model/{v.name.removesuffix(':0')}": v for v in self.model.variables}
        trained = [v.name.removesuffix(":0") for v in self.model.trainable_variables]
        slots = {
            f"momentum/{name}": slot for name, slot in zip(trained, self.optimizer.slots, strict=True)
        }
        loop = self.loop
        rest = {"step": loop.step, "loss_scale": loop.loss_scale, "finite_steps": loop.finite_steps}
        return {**model, **slots, **rest}

    def _write(self, event: str, step: int, values: dict[str, float]) -> None:
        if not self.chief:
            return
        self.folder.metrics.append(event, step, values)
        with self.summaries.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"{event}/{name}", value)
        self.summaries.flush()

    # The end

    def _stop_status(self, stop: StopRequest) -> int:
        signals = self.communicator.gather(stop.signal)
        return 128 + max(number or 0 for number in signals)

    def _finish(self, step: int, training_seconds: float, status: int) -> None:
        self.summaries.close()
        path, config = self.folder.path, self.config
        if status:
            print(
                f"stopped after step {step} of {self.plan.last_step}; saved in {path}\ncontinue with the"
                f" same command and --name {config.name}"
            )
            return
        train_seconds = self.chrono.seconds("train")
        result = {
            "top1": self.evaluation.top1 if self.evaluation else None,
            "top5": self.evaluation.top5 if self.evaluation else None,
            "examples": self.evaluation.examples if self.evaluation else 0,
            "training_seconds": training_seconds,
            "images_per_second": self.images_timed / train_seconds if train_seconds else None,
            "ranks": self.plan.ranks,
            "steps": step,
            "epochs": self.plan.epoch_of(step),
            "attempts": self.attempt,
            "seconds": self.chrono.totals,
        }
        self.folder.write_result(result)
        self.folder.metrics.append("finish", step, result)
        if self.evaluation:
            print(
                f"held-out top-1 {self.evaluation.top1:.2%}, top-5 {self.evaluation.top5:.2%} on"
                f" {self.evaluation.examples:,} images"
            )
        rate = f"{result['images_per_second']:.1f} images/s" if train_seconds else "one step"
        print(
            f"trained {step:,} steps in {training_seconds:.1f} s on {self.plan.ranks} ranks ({rate});"
            f" result.json, metrics.jsonl, tblogs and checkpoints are in {path}"
        )
