"""Dropout and its kind: the seeds of their random numbers, and that a run can be resumed."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from tf_keras.src.applications.convnext import StochasticDepth

from tests.trainer.support.scenarios import NORMALIZATION, local_gradients, make_loop
from tests.trainer.support.small_model import small_model
from trainer.config import ComputeConfig, DataConfig, ModelConfig, OptimizerConfig, TrainConfig
from trainer.distributed.communicator import Alone
from trainer.model.build import build_model
from trainer.model.randomness import is_random, randomness, use_keys

BUILDER = "tests.trainer.support.builders:good"
MODEL = ModelConfig(builder=BUILDER, image_size=8, classes=10)
IMAGES = tf.random.stateless_normal([4, 8, 8, 3], [1, 2])


def config(**changes):
    return TrainConfig(batch_size=8, data=DataConfig(source="synthetic"), model=MODEL, **changes)


def batch():
    noise = np.random.default_rng(0)
    half = noise.integers(0, 256, [4, 8, 8, 3])
    return {
        "image": tf.constant(np.concatenate([half, half]), tf.uint8),
        "target": tf.constant([1, 2, 3, 4] * 2, tf.int32),
        "weight": tf.ones([8]),
        "flip": tf.zeros([8], tf.bool),
    }


@pytest.fixture(scope="module")
def model():
    return build_model(MODEL, 10)


def logits(model, seed, step, rank, piece):
    with randomness(model, seed, tf.constant(step, tf.int64), rank, piece):
        return model(IMAGES, training=True).numpy()


def gradients(model, settings, rank=0):
    """A function of the step, which is compiled once."""
    local = local_gradients(model, NORMALIZATION, settings, 8, rank)
    traced = tf.function(local, autograph=False, jit_compile=settings.compute.xla)

    def of_step(step):
        values, _ = traced(batch(), tf.constant(1.0), tf.constant(step, tf.int64))
        return values[0].numpy()

    return of_step


# 1. Seeds of the numbers.


def test_seed_step_rank_and_micro_batch_each_give_other_numbers(model):
    base = logits(model, 1, 2, 3, 4)
    assert np.array_equal(logits(model, 1, 2, 3, 4), base)
    others = [(9, 2, 3, 4), (1, 9, 3, 4), (1, 2, 9, 4), (1, 2, 3, 9), (2, 1, 3, 4), (1, 2, 4, 3)]
    different = [logits(model, *other) for other in others]
    assert len({value.tobytes() for value in [base, *different]}) == 7


def test_layers_of_one_pass_draw_different_numbers():
    image = keras.Input((1000,))
    both = keras.Model(image, [keras.layers.Dropout(0.5)(image), keras.layers.Dropout(0.5)(image)])
    use_keys(both)
    with randomness(both, 0, tf.constant(0), 0, 0):
        one, other = (part.numpy() > 0 for part in both(tf.ones([1, 1000]), training=True))
    assert 0.4 < np.mean(one == other) < 0.6


@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.long)])
def test_gradients_repeat_for_a_step_and_a_rank_and_differ_for_others(model, xla):
    settings = config(compute=ComputeConfig(xla=xla))
    of_rank_0, of_rank_1 = (gradients(model, settings, rank) for rank in (0, 1))
    base = of_rank_0(5)
    assert np.array_equal(of_rank_0(5), base)
    assert not np.array_equal(of_rank_0(6), base)
    assert not np.array_equal(of_rank_1(5), base)


def test_equal_micro_batches_get_different_dropout(model):
    # The second half of the batch repeats the first; so do its gradients if nothing is dropped.
    settings = config(optimizer=OptimizerConfig(accumulation=2))
    (compute,) = local_gradients(model, NORMALIZATION, settings, 8).args
    pieces = []
    for number in (0, 1):
        first = {key: value[:4] for key, value in batch().items()}
        values, _ = compute(tf.constant(1.0), 0, first, tf.constant(5), number)
        pieces.append(values[0].numpy())
    assert not np.array_equal(*pieces)
    np.testing.assert_allclose(gradients(model, settings)(5), sum(pieces), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rank", [0, 1])
def test_the_loop_gives_its_step_and_its_rank_to_the_layers(rank):
    class Ranked(Alone):
        pass

    Ranked.rank = rank
    ended = []
    for calls in ([0.1] * 3,), ([0.1], [0.1] * 2):
        model = build_model(MODEL, 10)
        loop, _ = make_loop(config(), model, Ranked(), batch)
        for rates in calls:
            loop.run(rates, lambda _: None)
        loop.close()
        ended.append(model.get_weights())
    assert all(np.array_equal(a, b) for a, b in zip(*ended, strict=True))
    first = build_model(MODEL, 10)
    local = local_gradients(first, NORMALIZATION, config(), 8, rank)
    expected, _ = local(batch(), tf.constant(1.0), tf.constant(0, tf.int64))
    loop, rule = make_loop(config(), first, Ranked(), batch)
    loop.run([0.1], lambda _: None)
    loop.close()
    np.testing.assert_allclose(rule.optimizer.slots[-1], expected[-1], rtol=1e-4, atol=1e-6)


def test_a_model_without_random_layers_is_traced_as_without_them():
    plain = small_model(ModelConfig(image_size=8), 10)
    use_keys(plain)
    assert not is_random(plain)
    local = local_gradients(plain, NORMALIZATION, config(), 8)
    graph = (
        tf.function(local, autograph=False).get_concrete_function(batch(), tf.constant(1.0)).graph
    )
    assert not [node.op for node in graph.as_graph_def().node if "Random" in node.op]
    assert len(graph.inputs) == 4 + 1 + len(plain.variables)


# 2. Single layers.


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_stochastic_depth_drops_whole_images_and_keeps_the_mean(dtype):
    image = keras.Input((4, 4, 1), dtype=dtype)
    model = keras.Model(image, StochasticDepth(0.25, dtype=dtype)(image))
    use_keys(model)
    ones = tf.ones([2000, 4, 4, 1], dtype)
    with randomness(model, 0, tf.constant(0), 0, 0):
        kept = model(ones, training=True).numpy()
    assert kept.dtype == dtype
    assert np.array_equal(kept.min((1, 2, 3)), kept.max((1, 2, 3)))
    assert kept.astype(float).mean() == pytest.approx(1.0, abs=0.05)
    assert np.array_equal(model(ones, training=False), ones)


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dropout(0.5),
        keras.layers.Dropout(0.5, seed=7),
        keras.layers.Dropout(0.5, noise_shape=(None, 1)),
        keras.layers.AlphaDropout(0.5),
        keras.layers.GaussianDropout(0.5),
        keras.layers.GaussianNoise(0.5),
    ],
)
def test_all_layers_of_keras_repeat_and_vary(layer):
    image = keras.Input((50,))
    model = keras.Model(image, layer(image))
    use_keys(model)
    found = []
    for step in (0, 0, 1):
        with randomness(model, 0, tf.constant(step), 0, 0):
            found.append(model(tf.ones([20, 50]), training=True).numpy())
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert np.array_equal(model(tf.ones([20, 50]), training=False), np.ones([20, 50]))
