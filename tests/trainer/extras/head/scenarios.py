"""Scenarios of networks whose last layer is divided, which a rank of a test's world runs; see
`world.py`.
"""

import contextlib
import io
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.scenarios import given, make_loop, start, tiny_config
from trainer.config import CheckpointConfig, ComputeConfig, DataConfig, ModelConfig, TrainConfig
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone, Communicator
from trainer.extras.head.last_layer import DividedHead
from trainer.extras.head.leaf import HeadOptions
from trainer.extras.head.strategy import HeadGroups
from trainer.model.weights import variables_by_name
from trainer.tasks.classification.task import Classification
from trainer.tasks.task import Task
from trainer.updates import loss_scale
from trainer.updates.strategy import LocalStep, StepPlace, Strategy

Array = np.ndarray[Any, Any]


def plain(
    config: ModelConfig,
    outputs: int,
    precision: str = "float32",
    seed: int = 0,
    task: str = "classification",
    *,
    trial: bool = True,
) -> keras.Model:
    """A convolution and a dense layer without batch norm, whose gradient of a batch is exactly the
    mean of its gradients of the parts. Arguments as those of `build_model`.
    """
    from trainer.model.layers import freeze

    assert task == "classification"
    policy = keras.mixed_precision.Policy(precision)
    init = keras.initializers.GlorotUniform(seed=seed)
    image = keras.Input((config.image_size, config.image_size, 3))
    x = keras.layers.Conv2D(8, 3, kernel_initializer=init, dtype=policy, name="conv")(image)
    x = keras.layers.Flatten(dtype=policy)(keras.layers.ReLU(dtype=policy)(x))
    init = keras.initializers.GlorotUniform(seed=seed + 1)
    bias = keras.initializers.RandomNormal(stddev=0.1, seed=seed + 2)
    logits = keras.layers.Dense(
        outputs, kernel_initializer=init, bias_initializer=bias, dtype="float32", name="logits"
    )(x)
    model = keras.Model(image, logits)
    freeze(model, config.frozen)
    return model


def use_plain() -> None:
    """Have this process train, evaluate and export `plain`."""
    from trainer.model import weights
    from trainer.updates import strategy

    for module in (strategy, weights):
        vars(module)["build_model"] = plain


def train_run(workplace: str, name: str, changes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Train digits, continuing the run if there is one.

    Args:
        workplace: folder with the digits, in which runs are made.
        name: name of the run.
        changes: options that differ, by group; those of no group under "", and under "test" the
            first loss scale, and the number of a batch whose gradient overflows.

    Returns:
        Trained variables of this rank, with those of the optimizer; the output.
    """
    from trainer.training.run import Attempt, train

    use_plain()
    test = changes.get("test", {})
    vars(loss_scale)["INITIAL"] = test.get("loss_scale", loss_scale.INITIAL)
    if "poisoned" in test:
        _poison(test["poisoned"])
    found: dict[str, Any] = {}
    original = Attempt.run

    def run(attempt: Attempt, stop: Any) -> int:
        status = original(attempt, stop)
        stepper = attempt._stepper
        loop = stepper.loop
        variables = {**variables_by_name(stepper.model), **loop._strategy.state, **loop.state}
        found["variables"] = {name: v.numpy() for name, v in variables.items()}
        found["parts"] = sorted(name for part in stepper.divided for name in part.shapes)
        found["flops"] = stepper._flops
        return status

    Attempt.run = run  # type: ignore[method-assign, assignment]
    config = tiny_config(f"{workplace}/data/digits", name=name, runs_dir=f"{workplace}/runs")
    config = replace(
        config,
        optimizer=replace(
            config.optimizer, learning_rate=1.0, weight_decay=1e-3, warmup_epochs=0.1
        ),
        checkpoint=CheckpointConfig(every_epochs=0, every_steps=5),
        evaluation=replace(config.evaluation, every_epochs=0, batch_size=25),
        log=replace(config.log, report=False, every_steps=5),
        export=False,
    )
    for group in changes.keys() - {"test"}:
        options = changes[group]
        part = replace(getattr(config, group), **options) if group else None
        config = replace(config, **({group: part} if group else options))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert train(config) == 0
    return {**found, "printed": printed.getvalue()}


def _poison(number: int) -> None:
    """Give the images of a batch, counted from 0, so much weight that a gradient overflows."""
    original, used = RankData.next_batch, count()

    def next_batch(rank_data: RankData) -> dict[str, Any]:
        batch = original(rank_data)
        factor = tf.numpy_function(
            lambda _: np.float32(1e30 if next(used) == number else 1.0),
            [batch["target"]],
            tf.float32,
        )
        return {**batch, "weight": batch["weight"] * tf.ensure_shape(factor, [])}

    RankData.next_batch = next_batch  # type: ignore[method-assign, assignment]


def evaluate_saved(run: str) -> dict[str, Any]:
    """What `ml-trainer evaluate` finds for the newest checkpoint of a run."""
    from trainer.training.evaluator import evaluate_run
    from trainer.training.options import EvaluateOptions

    use_plain()
    return evaluate_run(EvaluateOptions(run)).to_json()


def world_of(head_groups: int) -> Communicator:
    """Join the world with groups of ranks."""
    return start(config_of(head_groups))


def config_of(head_groups: int, **changes: Any) -> TrainConfig:
    """A configuration whose ranks share last layers; 0 for an undivided one."""
    changes["head"] = HeadOptions(max(head_groups, 1))
    return TrainConfig(data=DataConfig(source="synthetic"), **changes)


class GivenParts(HeadGroups):
    """A given network that has the outputs of this rank's classes."""

    def __init__(self, model: keras.Model, world: Communicator, groups: int) -> None:
        self._given, self._groups = model, groups
        super().__init__(config_of(groups), 0, world, 0)

    def network(self, classes: int) -> keras.Model:
        self.head = self._head = DividedHead(self._given, self._world, self._groups)
        return self._head.network


def _leave(world: Communicator) -> None:
    # A rank that shuts down would end the exchanges of groups that it is not in.
    world.barrier()
    world.shutdown()


def groups(head_groups: int) -> dict[str, Any]:
    """All exchanges of a rank's groups, eagerly and in a graph."""
    world = world_of(head_groups)
    mine = tf.reshape(tf.range(8, dtype=tf.float32), [4, 2]) + 100.0 * world.rank
    rows = tf.ones([world.rank + 1, 2]) * world.rank
    results: dict[str, Any] = {}
    consecutive, same_place = world.groups(head_groups)
    for name, group in {
        "everyone": world.everyone, "consecutive": consecutive, "same_place": same_place
    }.items():  # fmt: skip
        graph = tf.function(
            lambda group=group, name=name: {
                "sum": group.sum([mine, mine[0]], f"{name}.sum"),
                "maximum": group.maximum(-mine, f"{name}.maximum"),
                "join": group.join(rows, f"{name}.join"),
                "scatter_sum": group.scatter_sum(mine, f"{name}.scatter_sum"),
            },
            autograph=False,
        )
        found = tf.nest.map_structure(lambda value: value.numpy(), graph())
        shares = list(range(1, group.size + 1))
        sent = tf.range(sum(shares) if group.index == 0 else 0, dtype=tf.float32)
        results[name] = {
            **found,
            "place": (group.index, group.size),
            "to_first": group.to_first(rows, f"{name}.to_first").numpy(),
            "from_first": group.from_first(sent, shares, f"{name}.from_first").numpy(),
            "spread": group.spread(mine, f"{name}.spread").numpy(),
        }
    _leave(world)
    return results


def dense_network(kernel: Array, bias: Array | None) -> keras.Model:
    """Features that are a trained factor times the input, and a dense layer with these values."""
    inputs = keras.Input((kernel.shape[0],))
    scaled = keras.layers.EinsumDense(
        "bd,d->bd", output_shape=(kernel.shape[0],), kernel_initializer="ones", name="factor"
    )(inputs)
    layer = keras.layers.Dense(kernel.shape[1], use_bias=bias is not None, name="logits")
    model = keras.Model(inputs, layer(scaled))
    layer.set_weights([kernel] if bias is None else [kernel, bias])
    return model


def losses_and_predictions(head_groups: int, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Losses, gradients and predictions of one rank's examples.

    Args:
        head_groups: 0 for the undivided layer, in one process with all examples.
        cases: Of each the whole kernel and bias; inputs, labels and weights of all examples, as
            many for each rank; label smoothing.
    """
    world = world_of(head_groups) if head_groups else Alone()
    found = [_losses_and_predictions(world, case, max(head_groups, 1)) for case in cases]
    _leave(world)
    return found


def _losses_and_predictions(
    world: Communicator, case: dict[str, Any], head_groups: int
) -> dict[str, Any]:
    kernel, bias = case["kernel"], case["bias"]
    group, _ = world.groups(head_groups)
    width = kernel.shape[1] // group.size
    columns = slice(group.index * width, (group.index + 1) * width)
    model = dense_network(kernel[:, columns], None if bias is None else bias[columns])
    task: Task = Classification(kernel.shape[1])
    if world.size > 1:
        strategy = GivenParts(model, world, head_groups)
        model, task = strategy.model, strategy.task(task)
    count = len(case["inputs"]) // world.size
    rows = slice(world.rank * count, (world.rank + 1) * count)
    inputs, labels, weights = (
        tf.constant(case[name][rows]) for name in ("inputs", "labels", "weights")
    )

    def graph() -> dict[str, Any]:
        with tf.GradientTape() as tape:
            outputs = model(inputs)
            losses, scores, plain = task.training(outputs, labels, case["smoothing"])
            total = tf.reduce_sum(losses * weights) * 8.0
        gradients = tape.gradient(total, model.trainable_variables)
        counts, columns = task.evaluated(outputs, labels)
        return {
            "losses": losses,
            "scores": scores,
            "plain": plain,
            "gradients": gradients,
            "counts": counts,
            "columns": columns,
        }

    found: dict[str, Any] = tf.nest.map_structure(
        lambda value: value.numpy(), tf.function(graph, autograph=False)()
    )
    return found


def bytes_of_a_rank(classes: int, features: int, head_groups: int) -> dict[str, Any]:
    """Bytes of the variables of a network and its optimizer, after a step.

    Args:
        classes: Classes of the last layer.
        features: Inputs of the last layer.
        head_groups: Ranks that share it.
    """
    world = world_of(head_groups)
    inputs = keras.Input((features,))
    x = keras.layers.Dense(features, activation="relu", name="hidden")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(classes // head_groups, name="logits")(x))
    config = config_of(head_groups)
    task: Task = Classification(classes)
    strategy: Strategy
    if head_groups > 1:
        strategy = parts = GivenParts(model, world, head_groups)
        parts.head.initialize()
        model, task = strategy.model, strategy.task(task)
    else:
        strategy = given(model, config, world)
    noise = np.random.default_rng(world.rank)
    batch = tf.constant(noise.normal(size=[4, features]), tf.float32)
    labels = tf.constant(noise.integers(0, classes, [4]), tf.int32)

    @tf.function(autograph=False)
    def step() -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            losses, *_ = task.training(model(batch), labels, 0.1)
            loss = tf.reduce_sum(losses) / (4.0 * world.size)
        gradients = tape.gradient(loss, model.trainable_variables)
        local = LocalStep(gradients, [loss, *[tf.constant(0.0)] * 5], strategy.loss_scale.now(), [])
        place = StepPlace(tf.constant(0, tf.int64), tf.constant(value=True))
        taken = strategy.update(local, tf.constant(0.1), place)
        return taken.sums[0], taken.norm

    losses = [[float(value) for value in step()] for _ in range(2)]
    _leave(world)
    variables = [*model.variables, *strategy.state.values()]
    return {"bytes": sum(v.numpy().nbytes for v in variables), "losses": losses}


def evaluate_unevenly(head_groups: int, counts: list[list[int]]) -> dict[str, Any]:
    """Evaluate batches of four examples of which only some count.

    Args:
        head_groups: Ranks that share the last layer; 0 for the undivided one, in one process.
        counts: Of each rank the examples that count in each of its batches.
    """
    from trainer.data.manifest import Normalization
    from trainer.training.evaluator import Evaluator

    world = world_of(head_groups) if head_groups else Alone()
    groups = max(head_groups, 1)
    group, _ = world.groups(groups)
    width = 10 // group.size
    noise = np.random.default_rng(0)
    kernel, images = (
        noise.normal(size=[192, 10]),
        noise.integers(0, 256, [len(counts), 3, 4, 8, 8, 3]),
    )
    first = group.index * width
    inputs = keras.Input((8, 8, 3))
    layer = keras.layers.Dense(width, use_bias=False, name="logits")
    model = keras.Model(inputs, layer(keras.layers.Flatten()(inputs)))
    layer.set_weights([kernel[:, first : first + width]])
    task: Task = Classification(10)
    if head_groups:
        strategy = GivenParts(model, world, groups)
        model, task = strategy.model, strategy.task(task)
    mine = [world.rank] if head_groups else range(len(counts))
    batches = [
        {
            "image": tf.constant(images[rank, number], tf.uint8),
            "target": tf.constant((np.arange(4) + 3 * rank + number) % 10, tf.int32),
            "weight": tf.cast(tf.range(4) < count, tf.float32),
            "flip": tf.zeros([4], tf.bool),
        }
        for rank in mine
        for number, count in enumerate(counts[rank])
    ]
    normalization = Normalization((127.5,) * 3, (1000.0,) * 3)
    evaluator = Evaluator(task, model, world, normalization, xla=False)
    result = evaluator.run(batches)
    _leave(world)
    assert evaluator.predictions is not None
    return {"result": result.to_json(), "columns": dict(evaluator.predictions.columns)}


def spoil(head_groups: int, precision: str, rank: int) -> dict[str, Any]:
    """Take up to six steps; after the third, one rank's part of the last layer is not a number.

    Returns:
        Steps taken, the bad step, and the ranks that are blamed for it.
    """
    from trainer.data.data_set import load_data_set

    use_plain()
    config = config_of(
        head_groups,
        batch_size=8,
        model=ModelConfig(image_size=8, classes=10),
        compute=ComputeConfig(precision=precision),  # type: ignore[arg-type]
    )
    world = start(config)
    strategy = HeadGroups(config, 10, world, 6)
    data_set = load_data_set(config)
    rank_data = RankData(config, data_set, world, 1)
    rank_data.open(0)
    loop, _ = make_loop(config, strategy, world, rank_data.next_batch, data_set.normalization)
    loop.run([0.01] * 3, lambda _: None)
    if world.rank == rank:
        kernel = strategy._head.trained[0]
        kernel.assign(tf.fill(kernel.shape, float("nan")))
    report = loop.run([0.01] * 3, lambda _: None)
    found = {"steps": report.steps, "bad_step": report.bad_step, "norm": report.gradient_norm}
    _leave(world)
    return found
