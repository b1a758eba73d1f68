"""Loss, gradients and update against arithmetic written here in NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from tests.trainer.support.scenarios import local_gradients
from trainer.config import DataConfig, OptimizerConfig, TrainConfig
from trainer.data.manifest import Normalization
from trainer.presets import PRESETS
from trainer.tasks.classification.task import cross_entropy
from trainer.updates.loss_scale import unscale
from trainer.updates.optimizer import Compiled, Momentum, build_optimizer, parameters

NORMALIZATION = Normalization((120.0, 110.0, 100.0), (60.0, 50.0, 40.0))
RATES = [0.1, 0.3, 0.3, 0.05, 0.0, 0.2]


def optimizer_config(**changes):
    return replace(PRESETS["digits"].optimizer, **changes)


# 1. The update.


def start(seed=0):
    source = np.random.default_rng(seed)
    return {
        "kernel": source.normal(size=(4, 3)),
        "convolution": source.normal(size=(2, 2, 3, 4)),
        "bias": source.normal(size=3),
        "scale": source.normal(size=4),
    }


def gradients_at(step):
    return start(100 + step)


def expected(values, momentum, decay, *, nesterov):
    """The same steps in float64, from the papers' formulas."""
    values = {name: value.copy() for name, value in values.items()}
    velocity = {name: np.zeros_like(value) for name, value in values.items()}
    for step, rate in enumerate(RATES):
        for name, gradient in gradients_at(step).items():
            if name in ("kernel", "convolution"):
                gradient = gradient + decay * values[name]  # noqa: PLW2901
            velocity[name] = momentum * velocity[name] + gradient
            ahead = gradient + momentum * velocity[name] if nesterov else velocity[name]
            values[name] = values[name] - rate * ahead
    return values, velocity


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_updates_are_those_of_the_formula(momentum, decay, nesterov):
    variables = {name: tf.Variable(value.astype(np.float32)) for name, value in start().items()}
    config = optimizer_config(momentum=momentum, weight_decay=decay, nesterov=nesterov)
    optimizer = Momentum(parameters(list(variables.values())), config)
    for step, rate in enumerate(RATES):
        gradients = [tf.constant(g, tf.float32) for g in gradients_at(step).values()]
        optimizer.apply(gradients, tf.constant(rate))
    values, velocities = expected(start(), momentum, decay, nesterov=nesterov)
    for (name, variable), slot in zip(variables.items(), optimizer.slots, strict=True):
        np.testing.assert_allclose(variable.numpy(), values[name], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(slot.numpy(), velocities[name], rtol=1e-5, atol=1e-5)


# 2. The loss.


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_cross_entropy_is_that_of_the_definition(smoothing):
    source = np.random.default_rng(0)
    logits = source.normal(scale=4, size=(6, 10))
    label = np.array([0, 9, 3, 3, 5, 7])
    logarithms = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    target = np.full((6, 10), smoothing / 10)
    target[np.arange(6), label] += 1 - smoothing
    wanted = -(target * logarithms).sum(1)
    found = cross_entropy(tf.constant(logits, tf.float32), tf.constant(label, tf.int32), smoothing)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_cross_entropy_of_large_logits_is_finite():
    found = cross_entropy(tf.constant([[1e4, -1e4]]), tf.constant([1]))
    assert found.numpy()[0] == pytest.approx(2e4)


# 3. The gradients of one rank.


def small_model():
    first, second = (keras.initializers.GlorotUniform(seed=seed) for seed in (1, 2))
    return keras.Sequential(
        [
            keras.layers.Conv2D(
                4, 3, activation="tanh", kernel_initializer=first, input_shape=(6, 6, 3)
            ),
            keras.layers.Flatten(),
            keras.layers.Dense(5, kernel_initializer=second),
        ]
    )


def batch_of(size, seed=0):
    source = np.random.default_rng(seed)
    return {
        "image": tf.constant(source.integers(0, 256, (size, 6, 6, 3)), tf.uint8),
        "target": tf.constant(source.integers(0, 5, size), tf.int32),
        "weight": tf.ones([size]),
        "flip": tf.constant(source.integers(0, 2, size), tf.bool),
    }


def differentiate(model, batch, accumulation=1, scale=1.0, global_batch=24):
    config = replace(
        PRESETS["digits"],
        batch_size=24,
        optimizer=optimizer_config(accumulation=accumulation, label_smoothing=0.1),
    )
    local = local_gradients(model, NORMALIZATION, config, global_batch)
    gradients, sums = tf.function(local, autograph=False)(batch, tf.constant(scale))
    loss, hits, weight, overflow, plain = (float(value) for value in sums)
    assert overflow == 0
    return [gradient.numpy() for gradient in gradients], np.array([loss, hits, weight, plain])


def part(batch, begin, end):
    return {key: value[begin:end] for key, value in batch.items()}


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("accumulation", [2, 3, 24])
def test_micro_batches_add_up_to_the_batch(accumulation):
    model, batch = small_model(), batch_of(24)
    whole, whole_sums = differentiate(model, batch)
    pieces, piece_sums = differentiate(model, batch, accumulation)
    assert_same(pieces, whole)
    np.testing.assert_allclose(piece_sums, whole_sums, rtol=1e-5)


def test_parts_of_several_ranks_add_up_to_the_batch():
    model, batch = small_model(), batch_of(24)
    whole, whole_sums = differentiate(model, batch)
    first, first_sums = differentiate(model, part(batch, 0, 10))
    second, second_sums = differentiate(model, part(batch, 10, 24))
    assert_same([a + b for a, b in zip(first, second, strict=True)], whole)
    np.testing.assert_allclose(first_sums + second_sums, whole_sums, rtol=1e-5)


class Positions(keras.layers.Layer):  # type: ignore[misc]
    """Adds an embedding of their place to a sequence of vectors, as a vision transformer does."""

    def __init__(self):
        super().__init__()
        self.table = keras.layers.Embedding(16, 4)

    def call(self, sequence):
        return sequence + self.table(tf.range(16))


def test_the_gradient_of_an_embedding_is_a_whole_tensor_which_ranks_can_add():
    image = keras.Input((6, 6, 3))
    patches = keras.layers.Reshape([16, 4])(keras.layers.Conv2D(4, 3)(image))
    outputs = keras.layers.Dense(5)(keras.layers.Flatten()(Positions()(patches)))
    model = keras.Model(image, outputs)
    gradients, _ = differentiate(model, batch_of(24))
    assert [g.shape for g in gradients] == [tuple(w.shape) for w in model.trainable_weights]


def test_the_loss_is_the_sum_over_images_divided_by_the_global_batch():
    model, batch = small_model(), batch_of(24)
    _, sums = differentiate(model, batch, global_batch=100)
    image = np.where(
        batch["flip"].numpy()[:, None, None, None],
        batch["image"].numpy()[:, :, ::-1],
        batch["image"].numpy(),
    )
    logits = model((image - np.array(NORMALIZATION.mean)) / np.array(NORMALIZATION.std))
    smoothed, plain = (
        cross_entropy(logits, batch["target"], one).numpy().sum() / 100 for one in (0.1, 0.0)
    )
    hits = (logits.numpy().argmax(1) == batch["target"].numpy()).sum()
    np.testing.assert_allclose(sums, [smoothed, hits, 24, plain], rtol=1e-5)
    # Far more than the tolerance, so that neither can stand for the other.
    assert abs(smoothed - plain) > 1e-4 * plain


def test_gradients_are_slopes_of_the_loss():
    model, batch = small_model(), batch_of(24)
    gradients, sums = differentiate(model, batch)
    weights = model.trainable_variables
    length = np.sqrt(sum((g**2).sum() for g in gradients))
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.assign_sub(1e-2 / length * gradient)
    _, after = differentiate(model, batch)
    assert sums[0] - after[0] == pytest.approx(1e-2 * length, rel=0.05)


def test_the_scale_multiplies_gradients_but_not_the_loss():
    model, batch = small_model(), batch_of(24)
    plain, plain_sums = differentiate(model, batch)
    scaled, scaled_sums = differentiate(model, batch, scale=1024.0)
    assert_same([gradient / 1024 for gradient in scaled], plain)
    np.testing.assert_allclose(scaled_sums, plain_sums, rtol=1e-6)


@pytest.mark.parametrize(("bad", "overflowed"), [(1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)])
def test_the_scale_is_taken_off_and_overflow_in_any_gradient_told(bad, overflowed):
    gradients, overflow = unscale([tf.constant([2.0, 4.0]), tf.constant([bad])], tf.constant(2.0))
    assert gradients[0].numpy().tolist() == [1.0, 2.0]
    assert float(overflow) == overflowed


@pytest.mark.parametrize("accumulation", [1, 3])
def test_images_of_weight_zero_contribute_nothing(accumulation):
    model, batch = small_model(), batch_of(24)
    ignored = np.zeros(24, bool)
    ignored[[0, 5, 6, 7, 23]] = True
    blanked = {**batch, "weight": tf.constant(np.where(ignored, 0.0, 1.0), tf.float32)}
    kept = {key: tf.boolean_mask(value, ~ignored) for key, value in batch.items()}
    gradients, sums = differentiate(model, blanked, accumulation)
    wanted, wanted_sums = differentiate(model, kept)
    assert_same(gradients, wanted)
    np.testing.assert_allclose(sums, wanted_sums, rtol=1e-5)
    assert sums[2] == 19


@pytest.mark.parametrize("kind", ["momentum", "lars", "adamw"])
def test_a_factor_of_the_rate_moves_a_part_of_the_network_so_much_less(kind):
    """Also the weight decay of that part, which is multiplied by the rate."""
    moved = {}
    for rates in ((), ("body=0.1", "body/special=0")):
        variables = [
            tf.Variable(tf.ones([3, 2]), name=name)
            for name in ("body/kernel", "body/special/kernel", "logits/kernel")
        ]
        config = OptimizerConfig(kind=kind, rates=rates, weight_decay=0.01, trust=0.1)
        optimizer = build_optimizer(parameters(variables, rates), config)
        optimizer.apply([tf.fill([3, 2], 0.5)] * 3, tf.constant(1.0))
        moved[rates] = [float(1.0 - variable[0, 0]) for variable in variables]
    plain, scaled = moved.values()
    assert all(way > 0 for way in plain)
    np.testing.assert_allclose(scaled, [plain[0] * 0.1, 0.0, plain[2]], rtol=1e-3, atol=1e-9)


def test_a_factor_for_no_layer_is_refused_with_the_layers():
    variables = [tf.Variable(tf.ones([2, 2]), name="conv0/kernel")]
    with pytest.raises(ConfigError, match="'dense' begins no trained layer's name; they are conv0"):
        parameters(variables, ("dense=0.1",))


@pytest.mark.parametrize("text", ["conv", "=0.1", "conv=", "conv=-1", "conv=inf", "conv=nan"])
def test_a_text_that_is_no_factor_is_refused(text):
    with pytest.raises(ConfigError, match="must be PREFIX=FACTOR"):
        TrainConfig(data=DataConfig(source="synthetic"), optimizer=OptimizerConfig(rates=(text,)))


def test_two_factors_of_one_prefix_are_refused():
    rates = ("conv=0.1", "conv=0.2")
    with pytest.raises(ConfigError, match="a prefix has two factors"):
        TrainConfig(data=DataConfig(source="synthetic"), optimizer=OptimizerConfig(rates=rates))


@pytest.mark.parametrize("kind", ["momentum", "lars", "adamw"])
def test_a_compiled_update_is_the_same_and_one_call_of_a_graph(kind):
    config, ends = OptimizerConfig(kind=kind, trust=0.1), []
    gradients = [tf.random.stateless_normal([3, 3, 4, 8], [1, 2]), tf.ones([8])]
    for wrapped in (lambda optimizer: optimizer, Compiled):
        start = tf.random.stateless_normal([3, 3, 4, 8], [3, 4])
        variables = [tf.Variable(start, name="conv/kernel"), tf.Variable(tf.ones([8]), name="b")]
        optimizer = wrapped(build_optimizer(parameters(variables), config))
        # A call of the graph needs a function of its own, which is traced once.
        update = tf.function(optimizer.apply, autograph=False).get_concrete_function(
            gradients, tf.constant(0.1)
        )
        for _ in range(3):
            update(*gradients, tf.constant(0.1))
        ends.append([*variables, *optimizer.state.values()])
    for plain, compiled in zip(*ends, strict=True):
        np.testing.assert_allclose(compiled.numpy(), plain.numpy(), rtol=1e-4, atol=1e-6)
    operations = {operation.type for operation in update.graph.get_operations()}
    assert not {name for name in operations if name.startswith("ResourceApply")}
    assert operations & {"PartitionedCall", "StatefulPartitionedCall"}
