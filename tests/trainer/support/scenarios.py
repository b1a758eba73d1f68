"""What the ranks of a test do; each function runs in every rank of a real world."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from trainer.config import (
    CheckpointConfig,
    ComputeConfig,
    DataConfig,
    ExchangeConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.data.manifest import Normalization
from trainer.data.rank_data import Feed
from trainer.data.source import Source
from trainer.diagnostics.device import set_up_device
from trainer.distributed.horovod import Alone, Communicator, connect
from trainer.model.resnet import build_resnet
from trainer.training import loop as loop_module
from trainer.training.evaluator import Evaluator
from trainer.training.loop import Loop
from trainer.training.optimizer import Momentum
from trainer.training.predictions import Predictions, gather
from trainer.training.setup import prepare


def tiny_config(folder: str, **changes: Any) -> TrainConfig:
    """A ResNet18 of width 4 on the digits in a folder."""
    base = TrainConfig(
        epochs=2,
        batch_size=32,
        data=DataConfig(
            source="digits", dir=folder, streams=4, shuffle_window=50, augment="shift", flip=False
        ),
        model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
        optimizer=OptimizerConfig(warmup_epochs=0.5, learning_rate=0.5, nesterov=True),
        checkpoint=CheckpointConfig(every_epochs=0),
    )
    return replace(base, **changes)


def start(config: TrainConfig) -> Communicator:
    """Join the world as `trainer.training.train.train` does."""
    world = connect(config.exchange)
    set_up_device(config, world)
    return world


def plain_model(seed: int = 0) -> keras.Model:
    """A convolution and a dense layer without batch norm: its gradient of a batch is exactly the
    mean of its gradients of the parts."""
    init = keras.initializers.GlorotUniform(seed=seed)
    image = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(8, 3, activation="relu", kernel_initializer=init, name="conv")(image)
    x = keras.layers.Flatten()(x)
    init = keras.initializers.GlorotUniform(seed=seed + 1)
    return keras.Model(image, keras.layers.Dense(10, kernel_initializer=init, name="logits")(x))


def values(variables: Any) -> list[Any]:
    return [np.array(v.numpy()) for v in variables]


def exchange(config: ExchangeConfig, arrays: list[list[Any]]) -> dict[str, Any]:
    """All communications of a world, with the arrays of this rank."""
    # fp16 is refused without it.
    compute = ComputeConfig(precision="mixed_float16")
    data = DataConfig(source="synthetic")
    world = start(TrainConfig(exchange=config, compute=compute, data=data))
    mine = [tf.constant(array) for array in arrays[world.rank]]
    graph = tf.function(world.exchange, autograph=False)
    gradients, extras = graph(mine, tf.constant([1.0, float(world.rank)]))
    variable = tf.Variable(np.full([3], world.rank, np.float32))
    world.broadcast_variables([variable])
    return {
        "place": (world.rank, world.size, world.local_rank, world.local_size),
        "gradients": [g.numpy() for g in gradients],
        "extras": extras.numpy(),
        "broadcast_variable": variable.numpy(),
        "broadcast": world.broadcast({"from": world.rank}),
        "gather": world.gather(["rank", world.rank]),
        "sum": world.sum(np.array([1.0, world.rank])),
    }


def take_steps(config: TrainConfig, steps: int) -> dict[str, Any]:
    """Train a ResNet some steps on the digits and return the whole state."""
    return _take_steps(config, steps, lambda: build_resnet(config.model, 10))


def take_steps_without_batch_norm(config: TrainConfig, steps: int) -> dict[str, Any]:
    """As `take_steps`, with `plain_model`."""
    return _take_steps(config, steps, plain_model)


def _take_steps(
    config: TrainConfig, steps: int, build: Callable[[], keras.Model]
) -> dict[str, Any]:
    world = start(config)
    model = build()
    prepared = prepare(config, world.size)
    feed = Feed(config, prepared, world, 1)
    optimizer = Momentum(model.trainable_variables, config.optimizer)
    loop = Loop(model, optimizer, world, prepared.normalization, config, feed.next_batch)
    feed.open(0)
    world.broadcast_variables(model.variables)
    report = loop.run([0.05] * steps, lambda _: None)
    return {
        "place": (world.rank, world.size, world.local_rank, world.local_size),
        "weights": values(model.trainable_variables),
        "moving": values(model.non_trainable_variables),
        "momentum": values(optimizer.slots),
        "loop": values(loop.state.values()),
        "loss": report.loss,
        "images": report.images,
        "steps": report.steps,
    }


def predict(config: TrainConfig) -> tuple[float, Predictions]:
    """Top-1 and predictions of a network as it starts, on the held-out digits."""
    world = start(config)
    prepared = prepare(config, world.size)
    feed = Feed(config, prepared, world, 1)
    evaluator = Evaluator(plain_model(), world, prepared.normalization, xla=False)
    result = evaluator.run(feed.validation())
    assert evaluator.predictions is not None
    return result.top1, gather(evaluator.predictions, feed.validation_share.start, world)


_BATCH = {
    "image": tf.TensorSpec([8, 8, 8, 3], tf.uint8),
    "label": tf.TensorSpec([8], tf.int32),
    "weight": tf.TensorSpec([8], tf.float32),
    "flip": tf.TensorSpec([8], tf.bool),
}
"""What `_batches` yields."""


def _batches(world: Communicator, weights: list[list[float]]) -> Iterator[dict[str, Any]]:
    """One batch of noise a step; `weights[step][rank]` is the weight of its images."""
    for number, step in enumerate(weights):
        noise = np.random.default_rng([number, world.rank])
        yield {
            "image": tf.constant(noise.integers(0, 256, [8, 8, 8, 3]), tf.uint8),
            "label": tf.constant(noise.integers(0, 10, [8]), tf.int32),
            "weight": tf.fill([8], tf.constant(step[world.rank], tf.float32)),
            "flip": tf.zeros([8], tf.bool),
        }


def weighted_steps(
    precision: str,
    weights: list[list[float]],
    poison: tuple[int, int] = (-1, -1),
    growth_steps: int = 2000,
    compression: str = "none",
) -> list[dict[str, Any]]:
    """One call of the loop a step, with chosen weights of the images; the state after each.

    Before step `poison[0]`, rank `poison[1]` gets a kernel that is not a number. The loss scale
    doubles after `growth_steps` finite steps.
    """
    loop_module.SCALE_GROWTH_STEPS = growth_steps
    config = TrainConfig(
        batch_size=8,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
        compute=ComputeConfig(precision=precision),  # type: ignore[arg-type]
        exchange=ExchangeConfig(compression=compression),  # type: ignore[arg-type]
    )
    world = start(config)
    dataset = tf.data.Dataset.from_generator(
        lambda: _batches(world, weights),
        output_signature=_BATCH,
    )
    iterator = iter(dataset)
    model = build_resnet(config.model, 10, precision)
    optimizer = Momentum(model.trainable_variables, config.optimizer)
    normalization = Normalization((127.5,) * 3, (73.9,) * 3)
    loop = Loop(model, optimizer, world, normalization, config, lambda: next(iterator))
    states = []
    for number in range(len(weights)):
        if poison == (number, world.rank):
            model.variables[0].assign(tf.fill(model.variables[0].shape, float("nan")))
        report = loop.run([0.05], lambda _: None)
        states.append(
            {
                "state": values([*model.variables, *optimizer.slots]),
                "loss_scale": float(loop.loss_scale.numpy()),
                "skipped": report.skipped_steps,
                "bad_step": report.bad_step,
                "bad_ranks": loop.bad_ranks(),
                "step": int(loop.step.numpy()),
            }
        )
        if report.bad_step is not None:
            break
    return states


def break_a_gradient(steps: int) -> dict[str, Any]:
    """Take steps in one call with a network whose last layer's gradient is not a number, though
    every other gradient and the first loss are fine."""
    config = TrainConfig(
        batch_size=8,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(image_size=8, classes=10),
    )
    world = start(config)

    @tf.custom_gradient
    def poisoned(weight: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        return tf.identity(weight), lambda upstream: upstream * float("nan")

    class Poisoned(keras.layers.Layer):  # type: ignore[misc]
        def build(self, _: Any) -> None:
            self.bias = self.add_weight(name="bias", shape=[10], initializer="zeros")

        def call(self, inputs: tf.Tensor) -> tf.Tensor:
            return inputs + poisoned(self.bias)

    image = keras.Input((8, 8, 3))
    logits = keras.layers.Dense(10)(keras.layers.Flatten()(image))
    model = keras.Model(image, Poisoned()(logits))
    prepared = prepare(config, 1)
    feed = Feed(config, prepared, world, 1)
    optimizer = Momentum(model.trainable_variables, config.optimizer)
    loop = Loop(model, optimizer, world, prepared.normalization, config, feed.next_batch)
    feed.open(0)
    report = loop.run([0.01] * steps, lambda _: None)
    return {"steps": report.steps, "bad_step": report.bad_step, "bad_ranks": loop.bad_ranks()}


def leave_in_the_middle(steps: int, at: int, rank: int, what: str) -> dict[str, Any]:
    """Ask for many steps in one call; one rank requests a stop or a pause when it sees a step done;
    then take three more steps.
    """
    config = TrainConfig(
        batch_size=8,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
        compute=ComputeConfig(steps_per_loop=steps),
    )
    world = start(config)
    prepared = prepare(config, world.size)
    feed = Feed(config, prepared, world, 1)
    model = build_resnet(config.model, prepared.classes)
    optimizer = Momentum(model.trainable_variables, config.optimizer)
    loop = Loop(model, optimizer, world, prepared.normalization, config, feed.next_batch)
    feed.open(0)
    seen = []

    def tick(step: int) -> None:
        seen.append(step)
        if step >= at and world.rank == rank:
            (loop.request_stop if what == "stop" else loop.request_pause)()

    report = loop.run([0.01] * steps, tick)
    left_at = int(loop.step)
    after = loop.run([0.01] * 3, lambda _: None)
    return {
        "steps": report.steps,
        "stopped": report.stopped,
        "paused": report.paused,
        "seen": seen,
        "step": left_at,
        "after": (after.steps, after.stopped, after.paused),
    }


def stop_while_tracing() -> dict[str, Any]:
    """Have the signal handler's call come while a function is being traced."""
    config = TrainConfig(
        batch_size=4,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
    )
    world = start(config)
    prepared = prepare(config, 1)
    feed = Feed(config, prepared, world, 1)
    model = build_resnet(config.model, prepared.classes)
    optimizer = Momentum(model.trainable_variables, config.optimizer)
    loop = Loop(model, optimizer, world, prepared.normalization, config, feed.next_batch)
    feed.open(0)

    def traced() -> tf.Tensor:
        loop.request_stop()
        return tf.constant(1)

    graph = tf.function(traced).get_concrete_function().graph
    assignments = [op for op in graph.get_operations() if op.type == "AssignVariableOp"]
    report = loop.run([0.01] * 50, lambda _: None)
    stopped = report.stopped and report.steps == 1
    return {"stopped": stopped, "assignments_in_the_graph": len(assignments)}


def pretend_mpi(folder: str) -> str:
    """Connect with a Horovod that claims to have MPI, under an mpirun that it does not see."""
    import horovod.tensorflow as hvd

    from common.errors import UserError

    hvd.mpi_built = lambda: True
    try:
        connect(ExchangeConfig())
    except UserError as error:
        return str(error)
    return f"not refused in {Path(folder)}"


def bytes_of_an_epoch(source: Source, ranks: int, buffer: int) -> int:
    """Bytes that rank 0 reads from files for its part of one epoch, a buffer's length at once."""
    from trainer.data import reader
    from trainer.data.pipeline import make_order
    from trainer.data.reader import training_records

    reader.READ_BUFFER = buffer
    order = make_order(source, ranks)
    share = source.split.examples // ranks

    def total() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("rchar")).split()[1])

    # A first pass, so that nothing but records is read in the one that counts.
    for _ in training_records(source, order, 0, 0).take(1):
        before = total()
    before = total()
    count = sum(1 for _ in training_records(source, order, 0, 0).take(share))
    assert count == share
    return total() - before


def name_damage(folder: str, trials: int) -> list[tuple[str, str]]:
    """Flip a byte of a shard, read, ask what was wrong; with the digits preset's own windows."""
    from trainer.data import retry
    from trainer.data.builtin.digits import prepare_digits
    from trainer.errors import DataError
    from trainer.presets import PRESETS

    retry.PAUSES = (0.0, 0.0)
    prepare_digits(folder)
    config = replace(PRESETS["digits"], ranks=1)
    config = replace(config, data=replace(config.data, dir=folder))
    noise = np.random.default_rng(0)
    found = []
    for _ in range(trials):
        shard = Path(folder) / f"train-{noise.integers(8):05d}-of-00008.tfrecord"
        sound = shard.read_bytes()
        broken = bytearray(sound)
        broken[noise.integers(len(broken))] ^= 0xFF
        shard.write_bytes(broken)
        feed = Feed(config, prepare(config, 1), Alone(), 1)
        feed.open(0)
        try:
            for _ in range(50):
                feed.next_batch()
        except tf.errors.OpError as error:
            try:
                feed.explain_training(error, 0)
                found.append((shard.name, f"not explained: {error}"))
            except DataError as explained:
                found.append((shard.name, str(explained)))
        shard.write_bytes(sound)
    return found


def stall_one_rank(seconds: float, late: int) -> list[tuple[int, bool]]:
    """Have one rank's fourth and last batch come late; what each tick of the loop saw."""
    config = TrainConfig(
        batch_size=8,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
    )
    world = start(config)

    def batches() -> Iterator[dict[str, Any]]:
        for number, batch in enumerate(_batches(world, [[1.0] * world.size] * 4)):
            if number == 3 and world.rank == late:
                time.sleep(seconds)
            yield batch

    dataset = tf.data.Dataset.from_generator(batches, output_signature=_BATCH)
    iterator = iter(dataset)
    model = build_resnet(config.model, 10)
    optimizer = Momentum(model.trainable_variables, config.optimizer)
    normalization = Normalization((127.5,) * 3, (73.9,) * 3)
    loop = Loop(model, optimizer, world, normalization, config, lambda: next(iterator))
    seen: list[tuple[int, bool]] = []
    loop.run([0.05] * 4, lambda step: seen.append((step, loop.arrived)))
    return seen


def roll_back(
    runs: str, name: str, poisoned: list[int], checkpoint: dict[str, Any], steps: int = 30
) -> dict[str, Any]:
    """Train digits where some global batches, counted from 0, make the loss not finite.

    Returns:
        The labels of each batch in the order in which they were used, and how it ended.
    """
    from trainer.errors import NonFiniteError
    from trainer.training.train import train

    used: list[list[int]] = []
    original = Feed.next_batch

    def note(labels: np.ndarray[Any, Any]) -> np.float32:
        used.append(labels.tolist())
        # So much weight makes a gradient that overflows.
        return np.float32(1e30 if len(used) - 1 in poisoned else 1.0)

    def next_batch(feed: Feed) -> dict[str, Any]:
        batch = original(feed)
        factor = tf.ensure_shape(tf.numpy_function(note, [batch["label"]], tf.float32), [])
        return {**batch, "weight": batch["weight"] * factor}

    Feed.next_batch = next_batch  # type: ignore[method-assign, assignment]
    config = tiny_config(f"{runs}/data", name=name, runs_dir=runs, max_steps=steps, ranks=1)
    config = replace(
        config,
        export=False,
        checkpoint=CheckpointConfig(every_steps=5, every_epochs=0, **checkpoint),
        evaluation=replace(config.evaluation, every_epochs=0),
        log=replace(config.log, every_steps=2, report=False),
    )
    try:
        train(config)
    except NonFiniteError as error:
        return {"used": used, "error": str(error)}
    return {"used": used, "error": None}


def train_without_batch_norm(runs: str, name: str, steps: int, batch_size: int) -> dict[str, Any]:
    """Train digits up to a step, continuing what is there; the state at the end."""
    from trainer.checkpoints.folder import CheckpointFolder
    from trainer.training import run
    from trainer.training.train import train

    vars(run)["build_resnet"] = lambda *_: plain_model()
    config = tiny_config(f"{runs}/data", name=name, runs_dir=runs, batch_size=batch_size)
    config = replace(
        config, max_steps=steps, export=False, evaluation=replace(config.evaluation, every_epochs=0)
    )
    train(config)
    found = CheckpointFolder(Path(runs) / name / "checkpoints").newest()
    assert found is not None
    return {"tensors": found.load(), "meta": found.meta}
