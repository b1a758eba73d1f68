"""Mixtures of two images: their pixels, their losses, and what does not count."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.scenarios import NORMALIZATION, local_gradients, plain_model, tiny_config
from trainer.config import DataConfig, OptimizerConfig
from trainer.data.augmentations.table import drawn_patch
from trainer.data.manifest import Split
from trainer.data.pipeline import Batch
from trainer.data.source import Source
from trainer.extras.multilabel.task import Multilabel
from trainer.tasks.classification.task import Classification
from trainer.tasks.weighted import with_weights
from trainer.updates.mixing import mixed_images, mixed_losses

SIZE, CLASSES = 8, 10
DRAWS = np.random.default_rng(5)
IMAGES = DRAWS.normal(size=[4, SIZE, SIZE, 3]).astype(np.float32)
LOGITS = DRAWS.normal(size=[4, CLASSES]).astype(np.float32)
LABELS = np.array([3, 1, 4, 1], np.int32)
PATCHES = np.array(
    [[0, 0, SIZE, SIZE, 0.25], [2, 1, 6, 5, 1], [0, 0, 0, 3, 1], [0, 0, SIZE, SIZE, 0]],
    np.float32,
)
SHARES = np.array([0.25, 16 / 64, 0, 0], np.float32)
NEXT = [1, 2, 3, 0]


def softmax_cross_entropy(targets):
    shifted = LOGITS.astype(float) - LOGITS.max(1, keepdims=True)
    return -(targets * (shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))).sum(1)


def test_an_image_is_blended_with_or_covered_by_the_next_one():
    found, share = mixed_images(tf.constant(IMAGES), tf.ones([4]), tf.constant(PATCHES))
    np.testing.assert_array_equal(share, SHARES)
    np.testing.assert_allclose(found[0], 0.75 * IMAGES[0] + 0.25 * IMAGES[1], rtol=1e-5, atol=1e-6)
    covered = IMAGES[1].copy()
    covered[2:6, 1:5] = IMAGES[2][2:6, 1:5]
    np.testing.assert_array_equal(found[1:], [covered, IMAGES[2], IMAGES[3]])


def test_no_image_is_mixed_with_one_that_does_not_count():
    weight = tf.constant([1.0, 0.0, 0.0, 1.0])
    found, share = mixed_images(tf.constant(IMAGES), weight, tf.constant(PATCHES))
    np.testing.assert_array_equal(found, IMAGES)
    assert not share.numpy().any()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_a_mixture_is_that_of_the_mixed_target(smoothing):
    task = Classification(CLASSES)
    loss, score, plain = mixed_losses(
        task, tf.constant(LOGITS), tf.constant(LABELS), smoothing, tf.constant(SHARES)
    )
    one_hot = np.eye(CLASSES)[LABELS]
    mixed = one_hot * (1 - SHARES[:, None]) + one_hot[NEXT] * SHARES[:, None]
    np.testing.assert_allclose(plain, softmax_cross_entropy(mixed), rtol=1e-5)
    smoothed = mixed * (1 - smoothing) + smoothing / CLASSES
    np.testing.assert_allclose(loss, softmax_cross_entropy(smoothed), rtol=1e-5)
    # Each class counts by its share.
    hits = mixed[np.arange(4), LOGITS.argmax(1)]
    np.testing.assert_allclose(score, hits, atol=1e-6)


def test_several_classes_per_image_are_mixed_as_well():
    there = DRAWS.integers(0, 2, [4, CLASSES]).astype(np.uint8)
    loss, _, plain = mixed_losses(
        Multilabel(CLASSES), tf.constant(LOGITS), tf.constant(there), 0.0, tf.constant(SHARES)
    )
    mixed = there * (1 - SHARES[:, None]) + there[NEXT] * SHARES[:, None]
    yes = 1 / (1 + np.exp(-LOGITS.astype(float)))
    wanted = -(mixed * np.log(yes) + (1 - mixed) * np.log(1 - yes)).mean(1)
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    np.testing.assert_array_equal(plain, loss)


def test_weights_of_classes_are_those_of_both_images():
    plain, weights = Classification(CLASSES), np.arange(1.0, 11.0)
    task = with_weights(plain, weights.tolist())
    given = tf.constant(LOGITS), tf.constant(LABELS)
    loss, *_ = mixed_losses(task, *given, 0.0, tf.constant(SHARES))
    own = plain.training(*given)[0].numpy()
    other = plain.training(given[0], tf.constant(LABELS[NEXT]))[0].numpy()
    wanted = own * weights[LABELS] * (1 - SHARES) + other * weights[LABELS[NEXT]] * SHARES
    np.testing.assert_allclose(loss, wanted, rtol=1e-5)


def batch(**options) -> Batch:
    config = DataConfig(augment="none", flip=False, **options)
    source = Source(Path(), Split((), (), ("PNG",)), CLASSES, SIZE, config, 0)
    patches = [drawn_patch(source, tf.constant(p, tf.int64)) for p in range(4)]
    return {
        "image": tf.cast(127 + 60 * IMAGES, tf.uint8),
        "target": tf.constant(LABELS),
        "weight": tf.ones([4]),
        "flip": tf.constant([True, False, True, False]),
        **{key: tf.stack([patch[key] for patch in patches]) for key in patches[0]},
    }


def gradients(given, accumulation=1):
    config = tiny_config("digits", batch_size=4, optimizer=OptimizerConfig(
        warmup_epochs=0.5, label_smoothing=0.1, accumulation=accumulation
    ))  # fmt: skip
    local = local_gradients(plain_model(), NORMALIZATION, config, 4)
    return [one.numpy() for one in tf.function(local)(given, tf.constant(1.0))[0]]


@pytest.mark.parametrize(
    "options", [{"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 1.0, "cutmix": 1.0}]
)
def test_a_step_mixes_what_a_batch_asks_for_in_each_micro_batch(options):
    given = batch(**options)
    plain = {key: value for key, value in given.items() if key != "patch"}
    whole, without = gradients(given), gradients(plain)
    assert not np.allclose(whole[0], without[0], rtol=1e-3)
    # A micro-batch mixes its own images only, so two of them are two batches.
    parts = [{key: value[begin : begin + 2] for key, value in given.items()} for begin in (0, 2)]
    apart = [sum(pair) for pair in zip(*map(gradients, parts), strict=True)]
    for left, right in zip(gradients(given, 2), apart, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)
    nothing = {**given, "patch": tf.zeros([4, 5])}
    for left, right in zip(gradients(nothing), without, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)
