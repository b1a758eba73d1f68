"""The loss, the files and their report, the export, and the targets of records."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from common.errors import ConfigError
from common.program import load
from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.data_sets.records import to_example
from trainer.config import DataConfig, ModelConfig
from trainer.data.example import Record
from trainer.data.manifest import Normalization, Split
from trainer.data.source import Source
from trainer.export.predict import load_exported
from trainer.export.saved_model import save_model
from trainer.extras.multilabel.classes import pack
from trainer.extras.multilabel.leaf import MULTI_HOT, MULTILABEL, MultilabelOptions
from trainer.extras.multilabel.targets import Classes
from trainer.extras.multilabel.task import Multilabel, loss
from trainer.extras.onnx.exporter import write_onnx
from trainer.model.build import build_model
from trainer.presets import PRESETS, parse_train
from trainer.report.run_data import read_run
from trainer.tasks.task import HeldOut, Predictions, Serving, make_task

NAMES = ("ant", "bee", "Kätzchen")


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


def batch(seed=0, images=20):
    random = np.random.default_rng(seed)
    logits = random.normal(0, 2, [images, 3]).astype(np.float32)
    target = (random.random([images, 3]) < 0.4).astype(np.uint8)
    return logits, target


@pytest.mark.parametrize(("smoothing", "weight"), [(0.0, 1.0), (0.1, 1.0), (0.0, 3.0)])
def test_the_loss_is_the_mean_cross_entropy_over_classes(smoothing, weight):
    logits, target = batch()
    soft = target * (1 - smoothing) + smoothing / 2
    probability = sigmoid(logits.astype(float))
    each = -weight * soft * np.log(probability) - (1 - soft) * np.log(1 - probability)
    found = loss(tf.constant(logits), tf.constant(target), smoothing, weight)
    np.testing.assert_allclose(found, each.mean(1), rtol=1e-5)


def test_the_options_reach_training_metrics_and_evaluation_but_not_its_loss():
    logits, target = map(tf.constant, batch())
    config = replace(PRESETS["tiles"], multilabel=MultilabelOptions(0.8, 3.0))
    task, plain = make_task(config, 3), make_task(PRESETS["tiles"], 3)
    np.testing.assert_array_equal(task.training(logits, target)[0], loss(logits, target, 0.0, 3.0))
    true, said = target.numpy() > 0, sigmoid(logits.numpy()) >= 0.8
    both, total = (true & said).sum(1), true.sum(1) + said.sum(1)
    expected = np.where(total > 0, 2 * both / np.maximum(total, 1), 1)
    np.testing.assert_allclose(task.training(logits, target)[1], expected, rtol=1e-6)
    results = [
        one.evaluation(one.evaluated(logits, target)[0].numpy().astype(float))
        for one in (task, plain)
    ]
    assert results[0].loss == results[1].loss
    # The same answer for every image: each class is found as often as it occurs.
    share = true.mean(0)
    said_all = 2 * true.sum() / (true.sum() + true.size)
    assert results[0].baseline == pytest.approx({
        "mean_ap": share.mean(), "mean_auc": 0.5, "micro_f1": said_all,
        "macro_f1": (2 * share / (share + 1)).mean(),
    })  # fmt: skip
    plain_loss = task.training(logits, target, 0.1)[2]
    np.testing.assert_allclose(plain_loss, loss(logits, target))
    assert results[0].metrics["mean_ap"] == results[1].metrics["mean_ap"]
    assert results[0].metrics["micro_f1"] == pytest.approx(2 * both.sum() / total.sum())
    assert list(results[0].metrics) == [metric.key for metric in MULTILABEL.evaluation]
    with pytest.raises(ConfigError, match=r"--multilabel.threshold: is for --task multilabel"):
        parse_train(["--preset", "digits", "--multilabel.threshold", "0.3"])


def test_an_evaluation_depends_on_no_order_of_examples():
    logits, target = batch(1, 50)
    task = Multilabel(3)
    counted = task.evaluated(tf.constant(logits), tf.constant(target))[0].numpy().astype(float)
    assert task.evaluation(counted) == task.evaluation(counted[::-1])


@pytest.fixture
def predictions():
    logits, target = batch(2)
    target[:, 2] = 0
    columns = Multilabel(3).evaluated(tf.constant(logits), tf.constant(target))[1]
    found = Predictions(np.arange(20) + 100, {k: v.numpy() for k, v in columns.items()})
    red = saved(Image.new("RGB", (8, 8), "red"), "PNG")
    return found, HeldOut(NAMES, lambda _: red, lambda _: (target, target, target))


def test_the_files_state_every_image_and_class_and_the_report_shows_them(tmp_path, predictions):
    given, held_out = predictions
    task = Multilabel(3)
    facts = task.write_predictions(tmp_path, given, held_out)
    assert facts == {"examples": 20, "images": 20}
    rows = list(csv.DictReader((tmp_path / "predictions.csv").open(encoding="utf-8", newline="")))
    assert [int(row["index"]) for row in rows] == given.index.tolist()
    true, said = given["target"] > 0, given["probabilities"] >= 0.5
    for row, has, says in zip(rows, true, said, strict=True):
        assert row["classes"] == "|".join(n for n, h in zip(NAMES, has, strict=True) if h)
        assert row["said"] == "|".join(n for n, s in zip(NAMES, says, strict=True) if s)
    classes = list(csv.DictReader((tmp_path / "classes.csv").open(encoding="utf-8", newline="")))
    assert [int(row["images"]) for row in classes] == true.sum(0).tolist()
    assert [int(row["right"]) for row in classes] == (true & said).sum(0).tolist()
    metrics = task.metrics(given["probabilities"], true)
    assert [row["ap"] for row in classes] == [f"{ap:.6f}" for ap in metrics.ap[:2]] + [""]

    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"event": "predictions", "step": 9, **facts}) + "\n"
    )
    text = repr(load(MULTILABEL.report)(read_run(tmp_path)))
    assert "20 held-out images after step 9" in text
    assert "The means leave out 1 class of 3 that none of these images has" in text
    assert "expected calibration error" in text
    assert text.count("Image ") == 20


def test_no_image_is_kept_if_none_is_wanted(tmp_path, predictions):
    given, held_out = predictions
    facts = Multilabel(3).write_predictions(tmp_path, given, replace(held_out, shown=False))
    assert facts["images"] == 0
    assert "--log.images none" in facts["problem"]
    assert not (tmp_path / "mistakes").exists()


@pytest.mark.long
def test_an_exported_model_answers_for_each_class_by_itself_also_as_onnx(tmp_path):
    config = ModelConfig(network="resnet", depth=18, width=4, stem="3x3", image_size=16)
    model = build_model(config, 3, task="multilabel")
    serving = Serving(NAMES, Normalization((127.0,) * 3, (60.0,) * 3), 16, 1.0, 1)
    folder = tmp_path / "saved_model"
    chosen = replace(PRESETS["tiles"], multilabel=MultilabelOptions(threshold=0.45))
    save_model(make_task(chosen, 3), model, folder, serving)
    pixels = np.random.default_rng(0).integers(0, 256, [2, 16, 16, 3], np.uint8)
    data = [io.BytesIO() for _ in pixels]
    for file, one in zip(data, pixels, strict=True):
        Image.fromarray(one).save(file, "PNG")
    exported = load_exported(folder)
    wanted = sigmoid(model((pixels - 127.0) / 60.0, training=False).numpy())
    found = exported.signatures["pixels"](pixels=tf.constant(pixels))["probabilities"].numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    answers = load(MULTILABEL.answers.read)(
        exported.signatures["serving_default"](images=tf.constant([f.getvalue() for f in data]))
    )
    for row, of_image in zip(found, answers, strict=True):
        assert [one["probability"] for one in of_image] == sorted(row.tolist(), reverse=True)
        assert all(one["present"] == (one["probability"] >= 0.45) for one in of_image)
        assert {one["class_name"] for one in of_image} == set(NAMES)
    assert write_onnx(folder, tmp_path / "model.onnx") < 1e-5


def source(tmp_path, classes=3):
    chosen = DataConfig(source="tfrecords", dir=str(tmp_path), augment="none", eval_crop=1.0)
    return Source(tmp_path, Split((), (1,) * classes, ("PNG",)), classes, 16, chosen, 0,
                  task="multilabel")  # fmt: skip


def values(stored):
    more = {MULTI_HOT: stored} if stored else {}
    black = saved(Image.new("RGB", (16, 16)), "PNG")
    record = Record(black, "PNG", 16, 16, 0, "a", "a.png", more=more)
    return (tf.constant(to_example(record)),)


def test_a_target_is_what_the_record_says(tmp_path):
    of, decoder = source(tmp_path), Classes()
    for labels in ([], [0, 2], [0, 1, 2]):
        stored = values(pack(labels, 3))
        assert decoder.fault(stored, of) is None
        image, target = decoder.evaluation(*decoder.parse(stored, of), of)
        assert image.shape == (16, 16, 3)
        assert np.flatnonzero(target).tolist() == labels
    assert decoder.blank(of).numpy().tolist() == [0, 0, 0]
    random = decoder.random(tf.random.Generator.from_seed(1), 64, 16, 3).numpy()
    assert set(random.ravel()) == {0, 1}


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (b"", "has no classes .*prepare the data with `prepare multilabel`"),
        (b"\1\0", "has 2 bytes for its classes, but the data set has 3 classes"),
        (b"\1\0\7", "has the byte 7 for a class, which must be 0 or 1"),
    ],
)
def test_a_record_of_another_data_set_is_named(tmp_path, stored, said):
    of, decoder = source(tmp_path), Classes()
    assert re.search(said, decoder.fault(values(stored), of))
    with pytest.raises(tf.errors.InvalidArgumentError):
        decoder.evaluation(*decoder.parse(values(stored), of), of)
