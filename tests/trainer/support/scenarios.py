"""Functions for the ranks of a test; each function runs in every rank of a real world."""

import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.small_model import small_model
from trainer.config import (
    CheckpointConfig,
    ComputeConfig,
    DataConfig,
    ExchangeConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.data.data_set import load_data_set
from trainer.data.manifest import Normalization
from trainer.data.rank_data import RankData
from trainer.data.source import Source
from trainer.diagnostics.device import set_up_device
from trainer.distributed.communicator import Alone, Communicator
from trainer.distributed.horovod import connect
from trainer.model.weights import variables_by_name
from trainer.tasks.classification.task import Classification
from trainer.tasks.task import Predictions
from trainer.training.evaluator import Evaluator, gather
from trainer.training.loop import Loop
from trainer.updates import loss_scale
from trainer.updates.gradients import MicroBatchGradients
from trainer.updates.strategy import Strategy, make_strategy

NORMALIZATION = Normalization((127.5,) * 3, (73.9,) * 3)
"""Of random images."""
SYNTHETIC = TrainConfig(
    batch_size=8,
    data=DataConfig(source="synthetic"),
    model=ModelConfig(depth=18, width=4, stem="3x3", image_size=8),
)
"""Random images of 8 x 8 pixels."""


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
    """Join the world as `trainer.training.run.train` does."""
    world = connect(config.exchange, config.strategy.neighbours)
    set_up_device(config, world, config.strategy.devices)
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


def use_small_model() -> None:
    """Have this process train, evaluate and export small models."""
    from trainer.model import weights
    from trainer.updates import strategy

    for module in (strategy, weights):
        vars(module)["build_model"] = small_model


def run_command(
    args: Sequence[str],
    cwd: str,
    small: bool,
    stop_at: tuple[int, int, int | Sequence[str]] | None,
) -> tuple[int, str, str]:
    """What `ml-trainer ARGS` does, in this process; exit status, stdout and stderr.

    Args:
        args: the command line.
        cwd: where it runs.
        small: whether to train a small model in place of a ResNet.
        stop_at: a rank, a signal that it sends to itself, and after how many steps, or at the first
            call of some functions.
    """
    from trainer import cli

    if small:
        use_small_model()
    if stop_at is not None and stop_at[0] == int(os.environ.get("HOROVOD_RANK", "0")):
        _signal_self_at(*stop_at[1:])
    # Where a test has put packages of its own.
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    os.chdir(cwd)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        log = os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            status = cli.main(list(args))
        finally:
            # The traceback of an error belongs into the log that `run_world` shows.
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(log, 2)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return status, texts[0], texts[1]


def _signal_self_at(number: int, at: int | Sequence[str]) -> None:
    """Have this process send itself a signal once it has taken that many steps, or in some
    calls."""
    if not isinstance(at, int):
        for name in at:
            _signal_self_in(number, name)
        return
    from trainer.training.run import Attempt

    take_steps = Attempt._take_steps

    def signal_and_take_steps(attempt: Attempt, step: int, epoch: int) -> Any:
        if step >= at:
            os.kill(os.getpid(), number)
        return take_steps(attempt, step, epoch)

    Attempt._take_steps = signal_and_take_steps  # type: ignore[method-assign, assignment]


def _signal_self_in(number: int, name: str) -> None:
    module, _, path = name.partition(":")
    *owners, last = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    function = getattr(owner, last)

    def signal_and_call(*args: Any, **options: Any) -> Any:
        setattr(owner, last, function)
        os.kill(os.getpid(), number)
        return function(*args, **options)

    setattr(owner, last, signal_and_call)


def given(
    model: keras.Model,
    config: TrainConfig,
    world: Communicator,
    make: Callable[..., Strategy] = make_strategy,
    total_steps: int = 0,
) -> Strategy:
    """The strategy of a configuration, or another, for a network that is given."""
    with patch("trainer.updates.strategy.build_model", lambda *_: model):
        return make(config, 10, world, total_steps)


def make_loop(
    config: TrainConfig,
    model: keras.Model | Strategy,
    world: Communicator,
    next_batch: Callable[[], dict[str, Any]],
    normalization: Normalization = NORMALIZATION,
) -> tuple[Loop, Strategy]:
    """The loop of a strategy, or of a network as in `given`, and the strategy."""
    strategy = model if isinstance(model, Strategy) else given(model, config, world)
    task = strategy.task(Classification(int(strategy.model.output_shape[-1])))
    return Loop(task, strategy, world, normalization, config, next_batch), strategy


def begin(
    config: TrainConfig, build: Callable[[Communicator, int], keras.Model | Strategy] | None = None
) -> tuple[Communicator, Loop, Strategy]:
    """Join the world, and open data and loop of a network or a strategy, by default of the small
    model.

    Args:
        config: Its data and options.
        build: Makes it for this rank's world and a number of classes.
    """
    world, data_set = start(config), load_data_set(config)
    model = (build or (lambda _, classes: small_model(config.model, classes)))(
        world, data_set.classes
    )
    rank_data = RankData(config, data_set, world, 1)
    loop, strategy = make_loop(config, model, world, rank_data.next_batch, data_set.normalization)
    rank_data.open(0)
    return world, loop, strategy


def local_gradients(
    model: keras.Model,
    normalization: Normalization,
    config: TrainConfig,
    global_batch: int,
    rank: int = 0,
) -> Any:
    """Forward and backward pass of a classifier on one rank."""
    world, task = Alone(), Classification(int(model.output_shape[-1]))
    world.rank = rank
    strategy = given(model, config, world)
    compute = MicroBatchGradients(task, model, normalization, config, global_batch, strategy.tape)
    return partial(strategy.gradients, compute)


def values(variables: Any) -> list[Any]:
    return [np.array(v.numpy()) for v in variables]


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether arrays are bit-identical, NaN included."""
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


def communicate(config: ExchangeConfig, arrays: list[list[Any]]) -> dict[str, Any]:
    """All communications of a world, with the arrays of this rank."""
    # fp16 is refused without it.
    compute = ComputeConfig(precision="mixed_float16")
    data = DataConfig(source="synthetic")
    world = start(TrainConfig(exchange=config, compute=compute, data=data))
    mine = [tf.constant(array) for array in arrays[world.rank]]
    graph = tf.function(world.allreduce, autograph=False)
    gradients, counts = graph(mine, tf.constant([1.0, float(world.rank)]))
    variable = tf.Variable(np.full([3], world.rank, np.float32))
    world.broadcast_variables([variable])
    return {
        "rank": (world.rank, world.size, world.local_rank, world.local_size),
        "gradients": [g.numpy() for g in gradients],
        "counts": counts.numpy(),
        "broadcast_variable": variable.numpy(),
        "broadcast": world.broadcast({"from": world.rank}),
        "gather": world.gather(["rank", world.rank]),
    }


def take_steps(config: TrainConfig, steps: int) -> dict[str, Any]:
    """Train a small model some steps on the digits and return the whole state."""
    return _take_steps(steps, *begin(config))


def take_steps_without_batch_norm(config: TrainConfig, steps: int) -> dict[str, Any]:
    """As `take_steps`, with `plain_model`."""
    return _take_steps(steps, *begin(config, lambda *_: plain_model()))


def _take_steps(steps: int, world: Communicator, loop: Loop, rule: Strategy) -> dict[str, Any]:
    model = rule.model
    world.broadcast_variables(model.variables)
    report = loop.run([0.05] * steps, lambda _: None)
    return {
        "rank": (world.rank, world.size, world.local_rank, world.local_size),
        "weights": values(model.trainable_variables),
        "moving": values(model.non_trainable_variables),
        "optimizer": values(rule.state.values()),
        "divided": {name: one for part in rule.parts({}) for name, one in part.gather().items()},
        "bytes": sum(part.bytes for part in rule.parts({})),  # type: ignore[attr-defined]
        "loop": values(loop.state.values()),
        "loss": report.loss,
        "images": report.images,
        "steps": report.steps,
    }


def wait_for_images(config: TrainConfig, steps: int, seconds: float) -> list[float]:
    """The waits that the loop reports, with TensorFlow's clock and with the deterministic one, if
    each batch's images are there some seconds after its targets.
    """

    def late(image: Any) -> Any:
        time.sleep(seconds)
        return image

    def next_batch() -> dict[str, Any]:
        batch = rank_data.next_batch()
        shape = batch["image"].shape
        arrived = tf.ensure_shape(tf.numpy_function(late, [batch["image"]], tf.uint8), shape)
        return {**batch, "image": arrived}

    world, data_set, waits = start(config), load_data_set(config), []
    for deterministic in (False, True):
        compute = replace(config.compute, deterministic=deterministic)
        rank_data = RankData(config, data_set, world, 1)
        given = (replace(config, compute=compute), plain_model(), world, next_batch)
        loop, _ = make_loop(*given, data_set.normalization)
        rank_data.open(0)
        waits.append(loop.run([0.05] * steps, lambda _: None).wait_seconds)
    return waits


def take_steps_of_a_run(config: TrainConfig, steps: int) -> dict[str, Any]:
    """Take steps in one call, with the network and the rule that a configuration asks for; the
    state that is the same on all ranks, by name.
    """
    use_small_model()
    world, loop, strategy = begin(
        config, lambda world, classes: make_strategy(config, classes, world, steps)
    )
    variables = {**variables_by_name(strategy.model), **strategy.state, **loop.state}
    parts = strategy.parts(variables)
    names = variables.keys() - {name for part in parts for name in part.shapes}
    world.broadcast_variables([variables[name] for name in sorted(names)])
    report = loop.run([0.05] * steps, lambda _: None)
    world.barrier()
    return {
        "state": {name: np.array(variables[name].numpy()) for name in names},
        "steps": report.steps,
        "images": report.images,
        "loss": report.loss,
    }


def files_of_a_step(config: TrainConfig) -> set[str]:
    """The files of the trainer whose functions build the graph of a step."""
    use_small_model()
    world, loop, _ = begin(config, lambda world, classes: make_strategy(config, classes, world, 1))
    files = set()
    sys.setprofile(lambda frame, *_: files.add(frame.f_code.co_filename))
    try:
        loop._graph.get_concrete_function()
    finally:
        sys.setprofile(None)
    world.barrier()
    root = Path(importlib.import_module("trainer").__file__ or "").parent
    return {str(Path(f).relative_to(root)) for f in files if Path(f).is_relative_to(root)}


def predict(config: TrainConfig) -> tuple[float, Predictions]:
    """Top-1 and predictions of a network as it starts, on the held-out digits."""
    world = start(config)
    data_set = load_data_set(config)
    rank_data = RankData(config, data_set, world, 1)
    task = Classification(data_set.classes)
    evaluator = Evaluator(task, plain_model(), world, data_set.normalization, xla=False)
    result = evaluator.run(rank_data.validation())
    assert evaluator.predictions is not None
    return result.metrics["top1"], gather(
        evaluator.predictions, rank_data.validation_share.start, world
    )


BATCH = {
    "image": tf.TensorSpec([8, 8, 8, 3], tf.uint8),
    "target": tf.TensorSpec([8], tf.int32),
    "weight": tf.TensorSpec([8], tf.float32),
    "flip": tf.TensorSpec([8], tf.bool),
}
"""What `_batches` yields."""


def batches_of(world: Communicator, weights: list[list[float]]) -> Iterator[dict[str, Any]]:
    """One batch of noise a step; `weights[step][rank]` is the weight of its images."""
    for number, step in enumerate(weights):
        noise = np.random.default_rng([number, world.rank])
        yield {
            "image": tf.constant(noise.integers(0, 256, [8, 8, 8, 3]), tf.uint8),
            "target": tf.constant(noise.integers(0, 10, [8]), tf.int32),
            "weight": tf.fill([8], tf.constant(step[world.rank], tf.float32)),
            "flip": tf.zeros([8], tf.bool),
        }


def weighted_batches(world: Communicator, weights: list[list[float]]) -> Any:
    """An iterator for graphs over one batch of noise a step; see `_batches`."""
    return iter(
        tf.data.Dataset.from_generator(lambda: batches_of(world, weights), output_signature=BATCH)
    )


def weighted_steps(
    precision: str,
    weights: list[list[float]],
    poison: tuple[int, int] = (-1, -1),
    growth_steps: int = 2000,
    compression: str = "none",
    kind: str = "momentum",
    leaves: Mapping[str, Any] = {},
    every: int = 1,
) -> list[dict[str, Any]]:
    """Calls of the loop of `every` steps, with chosen weights of the images; the state after each.

    Before call `poison[0]`, rank `poison[1]` gets a kernel that is not a number. The loss scale
    doubles after `growth_steps` finite steps. `leaves` are options of leaves, by their keys.
    """
    vars(loss_scale)["GROWTH_STEPS"] = growth_steps
    config = replace(
        SYNTHETIC,
        optimizer=OptimizerConfig(kind=kind),  # type: ignore[arg-type]
        compute=ComputeConfig(precision=precision),  # type: ignore[arg-type]
        exchange=ExchangeConfig(compression=compression),  # type: ignore[arg-type]
        **leaves,
    )
    world = start(config)
    iterator = weighted_batches(world, weights)
    model = small_model(config.model, 10, precision)
    strategy = given(model, config, world, total_steps=len(weights))
    loop, rule = make_loop(config, strategy, world, lambda: next(iterator))
    states = []
    for number in range(len(weights) // every):
        if poison == (number, world.rank):
            kernel = model.get_layer("logits").kernel
            kernel.assign(tf.fill(kernel.shape, float("nan")))
        report = loop.run([0.05] * every, lambda _: None)
        states.append(
            {
                "state": values([*model.variables, *rule.state.values()]),
                "loss_scale": float(loop.state["loss_scale"].numpy()),
                "finite_steps": int(loop.state["finite_steps"].numpy()),
                "skipped": report.skipped_steps,
                "bad_step": report.bad_step,
                "bad_ranks": loop.bad_ranks(),
                "step": int(loop.step.numpy()),
            }
        )
        if report.bad_step is not None:
            break
    return states


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


def check_cluster(args: list[str]) -> tuple[int, str, str]:
    """Check the cluster; exit status, stdout and stderr."""
    from trainer.diagnostics.cluster_check import main

    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        status = main(args)
    return status, out.getvalue(), err.getvalue()


def bytes_of_an_epoch(source: Source, ranks: int, buffer: int) -> int:
    """Bytes that rank 0 reads from files for its part of one epoch, a buffer's length at once."""
    from trainer.data.formats import tfrecord
    from trainer.data.pipeline import make_order
    from trainer.data.reader import training_records

    tfrecord.READ_BUFFER = buffer
    order = make_order(source, ranks)
    share = source.split.examples // ranks

    def total() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("rchar")).split()[1])

    # A first pass, so that nothing but records is read in the one that counts.
    for _ in training_records(source, order, 0, 0).unbatch().take(1):
        before = total()
    before = total()
    count = sum(1 for _ in training_records(source, order, 0, 0).unbatch().take(share))
    assert count == share
    return total() - before
