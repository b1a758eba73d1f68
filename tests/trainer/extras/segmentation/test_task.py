"""Segmentation: loss, metrics and files, against NumPy."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from common.errors import ConfigError
from tests.trainer.model.test_own_trial import assert_kept_in_trial
from tests.trainer.support.data_sets.image_files import saved
from trainer.config import ModelConfig, OptimizerConfig, TrainConfig
from trainer.data.manifest import Normalization
from trainer.errors import DataError
from trainer.extras.segmentation.files import overlay
from trainer.extras.segmentation.mask_files import IGNORED
from trainer.extras.segmentation.task import Segmentation
from trainer.model.build import build_model
from trainer.presets import PRESETS
from trainer.tasks.overlays import SHOWN
from trainer.tasks.task import HeldOut, Predictions, Serving, make_task

CLASSES, SIZE = 4, 6
TASK = Segmentation(CLASSES)


def batch(seed=0, size=3):
    noise = np.random.default_rng(seed)
    logits = noise.normal(size=[size, SIZE, SIZE, CLASSES]).astype(np.float32)
    target = noise.integers(0, CLASSES, [size, SIZE, SIZE]).astype(np.uint8)
    target[0, :2] = IGNORED
    return logits, target


def counts(logits, target):
    """The counts of an evaluation for each image."""
    return TASK.evaluated(tf.constant(logits), tf.constant(target))[0].numpy().astype(np.float64)


def counted_pixels(logits, target):
    """Pairs of true and predicted class of all pixels that count."""
    there = target != IGNORED
    return target[there], logits.argmax(-1)[there]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_an_image_is_the_mean_over_its_pixels_that_count(smoothing):
    logits, target = batch()
    found = TASK.training(tf.constant(logits), tf.constant(target), smoothing)[0].numpy()
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    for image in range(3):
        there = target[image] != IGNORED
        right = np.eye(CLASSES)[target[image][there]] * (1 - smoothing) + smoothing / CLASSES
        expected = -(right * np.log(probabilities[image][there])).sum(-1).mean()
        assert found[image] == pytest.approx(expected, rel=1e-5)


def test_an_image_without_a_pixel_that_counts_has_no_loss_and_no_gradient():
    logits = tf.Variable(batch()[0])
    target = tf.fill([3, SIZE, SIZE], tf.constant(IGNORED, tf.uint8))
    with tf.GradientTape() as tape:
        losses, scores, plain = TASK.training(logits, target, 0.1)
    assert losses.numpy().tolist() == plain.numpy().tolist() == [0.0, 0.0, 0.0]
    assert not tape.gradient(losses, logits).numpy().any()
    assert scores.numpy().tolist() == [0.0, 0.0, 0.0]


def test_metrics_over_several_batches_are_those_of_all_pixels_together():
    batches = [batch(seed) for seed in range(3)]
    sums = sum(counts(logits, target).sum(0) for logits, target in batches)
    found = TASK.evaluation(np.stack([counts(*one).sum(0) for one in batches]))
    true, predicted = np.concatenate([counted_pixels(*one) for one in batches], 1)
    iou = [
        ((true == c) & (predicted == c)).sum() / ((true == c) | (predicted == c)).sum()
        for c in range(CLASSES)
    ]
    assert found.metrics["mean_iou"] == pytest.approx(np.mean(iou), abs=1e-12)
    assert found.metrics["foreground_iou"] == pytest.approx(np.mean(iou[1:]), abs=1e-12)
    assert found.metrics["pixel_accuracy"] == pytest.approx((true == predicted).mean(), abs=1e-12)
    assert found.examples == 9
    # The largest class, everywhere.
    share = np.bincount(true, minlength=CLASSES).max() / len(true)
    assert found.baseline["pixel_accuracy"] == pytest.approx(share, abs=1e-12)
    assert found.baseline["mean_iou"] == pytest.approx(share / CLASSES, abs=1e-12)
    # Sums of whole numbers do not depend on how the images are divided over ranks and batches.
    parts = [
        counts(logits[i : i + 1], target[i : i + 1])[0]
        for logits, target in batches
        for i in range(3)
    ]
    assert np.array_equal(np.sum(parts, 0, np.float64)[2:], sums[2:])


def test_a_class_that_never_occurs_is_left_out_of_the_mean():
    target = np.zeros([1, SIZE, SIZE], np.uint8)
    logits = np.eye(CLASSES, dtype=np.float32)[target]
    found = TASK.evaluation(counts(logits, target)).metrics
    assert (found["mean_iou"], found["foreground_iou"], found["pixel_accuracy"]) == (1.0, 0.0, 1.0)


def test_a_mirrored_image_has_its_mask_mirrored():
    _, target = batch()
    found = TASK.mirrored(tf.constant(target), tf.constant([True, False, True])).numpy()
    assert np.array_equal(found[0], target[0, :, ::-1])
    assert np.array_equal(found[1], target[1])
    assert np.array_equal(found[2], target[2, :, ::-1])


@pytest.fixture
def predictions():
    logits, target = batch(7, 30)
    _, columns = TASK.evaluated(tf.constant(logits), tf.constant(target))
    pixels = {name: column.numpy() for name, column in columns.items()}
    image = np.random.default_rng(0).integers(0, 256, [SIZE, SIZE, 3]).astype(np.uint8)

    def predict(example):
        return image, target[example - 100], logits[example - 100]

    return Predictions(np.arange(30) + 100, pixels), HeldOut(("a", "b", "c", "d"), bytes, predict)


def test_the_files_rate_every_example_and_show_the_worst(tmp_path, predictions):
    given, held_out = predictions
    facts = TASK.write_predictions(tmp_path, given, held_out)
    assert facts == {"examples": 30, "overlays": SHOWN}
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["index"]) for row in rows] == given.index.tolist()
    worst = sorted(rows, key=lambda row: float(row["mean_iou"]))[:SHOWN]
    shown = {path.stem for path in (tmp_path / "overlays").iterdir()}
    assert shown == {row["index"] for row in worst}
    with (tmp_path / "classes.csv").open(newline="") as file:
        by_class = {row["class"]: row for row in csv.DictReader(file)}
    logits, target = batch(7, 30)
    true, predicted = counted_pixels(logits, target)
    for number, name in enumerate("abcd"):
        assert int(by_class[name]["pixels"]) == (true == number).sum()
        assert int(by_class[name]["predicted"]) == (predicted == number).sum()


def test_no_overlay_is_kept_if_none_is_wanted(tmp_path, predictions):
    given, held_out = predictions
    TASK.write_predictions(tmp_path, given, held_out)
    facts = TASK.write_predictions(tmp_path, given, replace(held_out, shown=False))
    assert facts["overlays"] == 0
    assert "--log.images none" in facts["problem"]
    assert not (tmp_path / "overlays").exists()


def test_an_example_that_cannot_be_read_is_told_and_the_others_are_shown(tmp_path, predictions):
    given, held_out = predictions

    def never(example):
        if example == given.index[0] or example % 2:
            raise DataError(f"record {example}: cannot be read")
        return held_out.predict(example)

    facts = TASK.write_predictions(tmp_path, given, HeldOut(held_out.class_names, bytes, never))
    assert facts["overlays"] < SHOWN
    assert "cannot be read" in facts["problem"]
    assert len(list((tmp_path / "overlays").iterdir())) == facts["overlays"]


def test_an_overlay_colours_classes_but_not_the_background():
    image = np.full([8, 8, 3], 100, np.uint8)
    target, predicted = np.zeros([8, 8], np.uint8), np.zeros([8, 8], np.int64)
    target[:2], target[7], predicted[5] = 3, IGNORED, 1
    drawn = np.asarray(overlay(image, target, predicted))
    factor = len(drawn) // 8
    small = drawn[::factor, ::factor]
    assert (small[:, :8] == 100).all()
    assert (small[2:, 9:17] == 100).all()
    assert (small[:2, 9:17] != 100).any(-1).all()
    assert [bool((row != 100).any()) for row in small[:, 18:26]] == [n == 5 for n in range(8)]


@pytest.mark.long
def test_the_exported_model_returns_the_mask_of_each_image(tmp_path):
    model = build_model(ModelConfig(network="unet", depth=18, width=4, stem="3x3", image_size=16),
                        CLASSES, task="segmentation")  # fmt: skip
    serving = Serving(("a", "b", "c", "d"), Normalization((127.0,) * 3, (64.0,) * 3), 16, 1.0, 5)
    module, signatures = TASK.serving_module(model, serving)
    tf.saved_model.save(module, str(tmp_path), signatures=signatures)
    loaded = tf.saved_model.load(str(tmp_path))
    pixels = np.random.default_rng(0).integers(0, 256, [2, 16, 16, 3]).astype(np.uint8)
    encoded = [saved(one, "PNG") for one in pixels]
    found = loaded.signatures["serving_default"](images=tf.constant(encoded))
    logits = model((pixels.astype(np.float32) - 127.0) / 64.0, training=False).numpy()
    assert np.array_equal(found["masks"].numpy(), logits.argmax(-1))
    shares = np.stack([(logits.argmax(-1) == c).mean((1, 2)) for c in range(CLASSES)], 1)
    np.testing.assert_allclose(found["shares"].numpy(), shares, atol=1e-6)
    empty = loaded.signatures["pixels"](pixels=tf.zeros([0, 16, 16, 3], tf.uint8))
    assert empty["probabilities"].shape == [0, 16, 16, CLASSES]


@pytest.mark.parametrize(
    ("stem", "depth", "size"),
    [("3x3", 18, 33), ("7x7", 18, 32), pytest.param("3x3", 50, 33, marks=pytest.mark.long)],
)
def test_a_unet_has_an_output_for_each_pixel_at_any_size(stem, depth, size):
    config = ModelConfig(network="unet", depth=depth, width=4, stem=stem, image_size=size)
    model = build_model(config, 5, task="segmentation")
    again = build_model(config, 5, task="segmentation")
    assert model.output_shape == (None, size, size, 5)
    assert model.output.dtype == tf.float32
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        assert np.array_equal(one, other)
    logits = model(tf.zeros([1, size, size, 3]), training=False)
    assert np.isfinite(logits.numpy()).all()


def test_in_mixed_precision_the_logits_of_a_unet_are_float32():
    config = ModelConfig(network="unet", depth=18, width=4, stem="3x3", image_size=16)
    model = build_model(config, 5, "mixed_float16", task="segmentation")
    assert model(tf.zeros([1, 16, 16, 3])).dtype == tf.float32
    assert {v.dtype for v in model.variables} == {tf.float32}


def test_a_network_that_does_not_fit_the_task_is_refused():
    scenes = PRESETS["scenes"]
    with pytest.raises(ConfigError, match=r"--model.network: resnet does not fit the task.*unet"):
        TrainConfig(preset="scenes", task="segmentation", data=scenes.data,
                    optimizer=OptimizerConfig(warmup_epochs=1.0))  # fmt: skip
    with pytest.raises(ConfigError, match=r"--task: classification does not fit --data.source"):
        TrainConfig(preset="scenes", data=scenes.data)


def test_the_task_is_made_by_its_name():
    assert isinstance(make_task(PRESETS["scenes"], 3), Segmentation)


def test_an_own_network_of_pixels_keeps_its_initial_values_in_its_trial():
    assert_kept_in_trial("dense_pixels", "segmentation")
