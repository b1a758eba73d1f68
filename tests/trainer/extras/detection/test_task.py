"""The network, its files, its export, and the requirements on a configuration."""

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras
from PIL import Image

from common.errors import ConfigError
from common.program import load
from tests import ROOT
from tests.trainer.extras.detection.test_loss import batch
from tests.trainer.support.data_sets.image_files import saved
from trainer import cli
from trainer.checkpoints.snapshot import stored_name
from trainer.config import ModelConfig
from trainer.data.manifest import Normalization
from trainer.errors import CheckpointError
from trainer.export.saved_model import save_model
from trainer.extras.detection.drawing import draw_answers
from trainer.extras.detection.files import rating
from trainer.extras.detection.found import MOST, find_objects
from trainer.extras.detection.leaf import DETECTION, locations
from trainer.extras.detection.network import PRIOR, GroupNorm
from trainer.extras.detection.task import Detection, as_images
from trainer.extras.onnx.exporter import write_onnx
from trainer.model.build import build_model
from trainer.model.initial_weights import load_initial_weights
from trainer.presets import PRESETS, parse_train
from trainer.report.run_data import read_run
from trainer.tasks.overlays import SHOWN
from trainer.tasks.task import HeldOut, Predictions, Serving

SMALL = ModelConfig(network="fcos-small", depth=18, width=8, image_size=64)
NAMES = ("a", "b", "c")
TASK = Detection(3)


@pytest.mark.parametrize(("network", "count"), [("fcos", locations(96)), ("fcos-small", 756)])
def test_a_network_begins_with_improbable_classes_and_knows_its_locations(network, count):
    config = replace(SMALL, network=network, image_size=96)
    model = build_model(config, 3, task="detection")
    assert model.output_shape == (None, count, 3 + 8)
    outputs = model(tf.zeros([1, 96, 96, 3]), training=False).numpy()[0]
    np.testing.assert_allclose(1 / (1 + np.exp(-outputs[:, :3])), PRIOR, rtol=0.05)
    strides = sorted(set(outputs[:, -1].tolist()))
    np.testing.assert_allclose(strides[0] * 96, 8 if network == "fcos" else 4, rtol=1e-5)
    assert len(strides) == (5 if network == "fcos" else 3)
    finest = outputs[outputs[:, -1] == strides[0]]
    np.testing.assert_allclose(finest[1, -3:-1] - finest[0, -3:-1], [strides[0], 0], atol=1e-6)
    assert TASK.description.logits(96, 3) == [locations(96), 11]


def test_group_norm_is_that_of_keras_in_half_of_the_operations():
    noise = np.random.default_rng(0)
    maps = [noise.normal(3, 2, [2, side, side, 8]).astype(np.float32) for side in (6, 3)]
    weights = [noise.normal(1, 1, [8]).astype(np.float32) for _ in range(2)]
    found, operations = [], []
    for layer in (GroupNorm(2, "norm"), tf_keras.layers.GroupNormalization(2)):
        layer.build([None, None, None, 8])
        layer.set_weights(weights)

        def differentiated(x, layer=layer):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x)
                loss = tf.reduce_sum(tf.sin(y))
            return y, *tape.gradient(loss, [x, *layer.trainable_weights])

        graph = tf.function(differentiated)
        found.append([graph(tf.constant(x)) for x in maps])
        operations.append(len(graph.get_concrete_function(maps[0]).graph.get_operations()))
    for mine, keras in zip(*found, strict=True):
        for one, other in zip(mine, keras, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert 2 * operations[0] < operations[1], operations


def test_in_mixed_precision_outputs_and_weights_are_float32():
    model = build_model(SMALL, 3, "mixed_float16", task="detection")
    norms = [layer for layer in model.layers if isinstance(layer, GroupNorm)]
    assert {layer.output.dtype for layer in norms} == {tf.float16}
    assert model(tf.zeros([1, 64, 64, 3])).dtype == tf.float32
    assert {variable.dtype for variable in model.variables} == {tf.float32}


def state(path, model):
    tensors = {f"model/{stored_name(v)}": np.asarray(v.numpy()) for v in model.variables}
    safetensors.numpy.save_file(tensors, path)
    return path


@pytest.mark.long
def test_it_is_tuned_from_a_classification_and_from_a_detection_of_other_classes(tmp_path):
    config = replace(SMALL, image_size=32)
    body = build_model(replace(config, network="resnet"), 7, seed=5)
    model = build_model(config, 3, task="detection")
    before = model.get_layer("distances").get_weights()[0]
    said = load_initial_weights(model, state(tmp_path / "a.safetensors", body))
    assert "class_logits" in said
    assert "differ and keep their own" in said
    assert np.array_equal(
        model.get_layer("conv0").get_weights(), body.get_layer("conv0").get_weights()
    )
    assert np.array_equal(model.get_layer("distances").get_weights()[0], before)
    other = build_model(config, 5, task="detection", seed=9)
    said = load_initial_weights(other, state(tmp_path / "b.safetensors", model))
    assert "initial weights; class_logits differs and keeps its own" in said
    assert np.array_equal(other.get_layer("distances").get_weights()[0], before)
    deeper = build_model(replace(config, depth=34), 3, task="detection")
    with pytest.raises(CheckpointError, match="belongs to another network"):
        load_initial_weights(deeper, tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--data.eval-crop", "0.875", "an evaluation sees whole images; set it to 1"),
        ("--data.augment", "shift", "use random-resized-crop or none"),
        ("--optimizer.label-smoothing", "0.1", "the focal loss has no smoothing"),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(option, value, problem):
    with pytest.raises(ConfigError, match=problem):
        parse_train(["--preset", "shapes", option, value])
    assert parse_train(["--preset", "shapes", "--detection.boxes", "20"]).task == "detection"


@pytest.fixture
def predictions():
    logits, target = batch(7, 20)
    _, columns = TASK.evaluated(tf.constant(logits), tf.constant(target))
    found = Predictions(np.arange(20) + 100, {k: v.numpy() for k, v in columns.items()})
    image = np.full([64, 64, 3], 90, np.uint8)
    return found, HeldOut(NAMES, bytes, lambda n: (image, target[n - 100], logits[n - 100]))


def test_the_files_rate_every_image_and_class_and_the_report_shows_them(tmp_path, predictions):
    given, held_out = predictions
    facts = TASK.write_predictions(tmp_path, given, held_out)
    assert facts == {"examples": 20, "overlays": SHOWN}
    rows = list(csv.DictReader((tmp_path / "predictions.csv").open(newline="")))
    assert [int(row["index"]) for row in rows] == given.index.tolist()
    worst = sorted(rows, key=lambda row: float(row["ap"]))[:SHOWN]
    assert {p.stem for p in (tmp_path / "overlays").iterdir()} == {r["index"] for r in worst}
    # An image of 200 x 100 is shown in its shape, twice.
    with Image.open(tmp_path / f"overlays/{worst[0]['index']}.png") as drawn:
        assert drawn.size == (2 * 512 + 2, 256)
        assert len(set(drawn.getdata())) > 3
    classes = list(csv.DictReader((tmp_path / "classes.csv").open(newline="")))
    images = as_images(given["found"].astype(float), given["target"].astype(float))
    whole = TASK.evaluation(np.concatenate([np.ones([20, 2]), given["found"], given["target"]], 1))
    mean = np.mean([float(row["ap"]) for row in classes])
    assert mean == pytest.approx(whole.metrics["map"], abs=1e-5)
    assert float(rows[3]["ap"]) == pytest.approx(rating(images[3], 3), abs=1e-5)

    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"event": "predictions", "step": 9, **facts}) + "\n"
    )
    shown = load(DETECTION.report)(read_run(tmp_path))
    text = repr(shown)
    assert "20 held-out images after step 9" in text
    assert "Precision by recall" in text
    assert text.count("Image ") == SHOWN


def test_the_curves_of_a_class_called_recall_are_its_own(tmp_path, predictions):
    given, held_out = predictions
    facts = TASK.write_predictions(tmp_path, given, held_out)
    (tmp_path / "metrics.jsonl").write_text(
        json.dumps({"event": "predictions", "step": 9, **facts}) + "\n"
    )
    usual = repr(load(DETECTION.report)(read_run(tmp_path))[0])
    TASK.write_predictions(tmp_path, given, replace(held_out, class_names=("recall", "b", "c")))
    found = repr(load(DETECTION.report)(read_run(tmp_path))[0])
    assert "Precision by recall" in usual
    assert found.replace("recall", "a") == usual.replace("recall", "a")


def test_no_overlay_is_kept_if_none_is_wanted(tmp_path, predictions):
    given, held_out = predictions
    facts = TASK.write_predictions(tmp_path, given, replace(held_out, shown=False))
    assert "--log.images none" in facts["problem"]
    assert not (tmp_path / "overlays").exists()


def png(pixels):
    return saved(Image.fromarray(pixels), "PNG")


def finding(classes):
    """A network that finds something in noise."""
    model = build_model(SMALL, classes, task="detection", seed=3)
    noise = np.random.default_rng(1)
    for name, scale in (("class_logits", 0.3), ("centerness", 0.3), ("distances", 0.05)):
        kernel, bias = model.get_layer(name).get_weights()
        kernel = noise.normal(0, scale, kernel.shape)
        model.get_layer(name).set_weights([kernel, np.zeros_like(bias)])
    return model


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An export, and the network in it."""
    folder, model = tmp_path_factory.mktemp("export"), finding(3)
    serving = Serving(NAMES, Normalization((127.0,) * 3, (64.0,) * 3), 64, 1.0, 5)
    save_model(TASK, model, folder / "saved_model", serving)
    return folder, model


def test_the_exported_model_returns_objects_of_whole_images_and_takes_thresholds(exported):
    folder, model = exported
    loaded = tf.saved_model.load(str(folder / "saved_model"))
    pixels = np.random.default_rng(0).integers(0, 256, [2, 64, 64, 3]).astype(np.uint8)
    logits = model((pixels.astype(np.float32) - 127.0) / 64.0, training=False)
    images = tf.constant([png(one) for one in pixels])
    found = loaded.signatures["serving_default"](images=images)
    wanted = find_objects(logits, 0.3, 0.6).numpy()
    assert (wanted[..., 4] > 0).sum() > 10
    np.testing.assert_allclose(found["boxes"], wanted[..., :4], atol=1e-4)
    np.testing.assert_allclose(found["scores"], wanted[..., 4], atol=1e-4)
    assert np.array_equal(found["class_ids"], wanted[..., 5])
    assert found["class_names"].numpy()[0, 0].decode() == NAMES[int(wanted[0, 0, 5])]
    few = loaded.signatures["thresholds"](
        images=images, score_threshold=tf.constant(0.75), iou_threshold=tf.constant(0.1)
    )
    wanted = find_objects(logits, 0.75, 0.1).numpy()
    np.testing.assert_allclose(few["scores"], wanted[..., 4], atol=1e-4)
    answers = load(DETECTION.answers.read)(found)
    assert [len(one) for one in answers] == (found["scores"].numpy() > 0).sum(1).tolist()
    drawn = draw_answers(png(pixels[0]), answers[0])
    assert not np.array_equal(np.asarray(Image.open(io.BytesIO(drawn))), pixels[0])
    empty = loaded.signatures["pixels"](
        pixels=tf.zeros([0, 64, 64, 3], tf.uint8),
        score_threshold=tf.constant(0.1), iou_threshold=tf.constant(0.5),
    )  # fmt: skip
    assert empty["boxes"].shape == [0, MOST, 4]


@pytest.mark.long
def test_predict_draws_boxes_and_score_writes_them(exported, tmp_path, capsys):
    folder, _ = exported
    facts = {"task": "detection", "class_names": NAMES, "top": 3, "run": "a", "step": 1}
    (folder / "export.json").write_text(json.dumps(facts))
    pixels = np.random.default_rng(8).integers(0, 256, [64, 64, 3]).astype(np.uint8)
    (tmp_path / "images").mkdir()
    (tmp_path / "images/x.png").write_bytes(png(pixels))
    image, drawn = str(tmp_path / "images/x.png"), tmp_path / "drawn"
    options = ["--model", str(folder), "--json", "True", "--draw", str(drawn)]
    assert cli.main(["predict", image, *options]) == 0
    told = json.loads(capsys.readouterr().out)["classes"]
    assert len(told) > 3
    assert set(told[0]) == {"class_id", "class_name", "box", "score"}
    with Image.open(drawn / "1-x.jpg") as picture:
        assert picture.size == (64, 64)
    where = ["--input", str(tmp_path / "images"), "--output", str(tmp_path / "scores")]
    assert cli.main(["score", "--model", str(folder), "--processes", "1", *where]) == 0
    (row,) = pq.read_table(tmp_path / "scores/part-00000.parquet").to_pylist()
    assert (row["image"], row["error"]) == ("x.png", None)
    scored = json.loads(row["answers"])
    assert [one["class_name"] for one in scored] == [one["class_name"] for one in told]


@pytest.mark.long
def test_onnx_suppresses_as_the_saved_model_does(exported, tmp_path):
    import onnxruntime

    folder, _ = exported
    assert write_onnx(folder / "saved_model", tmp_path / "model.onnx") < 1e-5
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    assert {one.name for one in session.get_inputs()} == {
        "pixels", "score_threshold", "iou_threshold",
    }  # fmt: skip
    pixels = np.random.default_rng(4).integers(0, 256, [3, 64, 64, 3]).astype(np.uint8)
    signature = tf.saved_model.load(str(folder / "saved_model")).signatures["pixels"]
    for score, overlap in ((0.3, 0.6), (0.6, 0.2)):
        inputs = {
            "pixels": pixels,
            "score_threshold": np.full((), score, np.float32),
            "iou_threshold": np.full((), overlap, np.float32),
        }
        wanted = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        boxes, scores, ids = session.run(["boxes", "scores", "class_ids"], inputs)
        assert (scores > 0).sum() > 3
        np.testing.assert_allclose(scores, wanted["scores"], atol=1e-4)
        np.testing.assert_allclose(boxes, wanted["boxes"], atol=1e-3)
        assert np.array_equal(ids, wanted["class_ids"])


def test_the_scoring_script_answers_with_objects():
    program = (
        "import json, numpy as np, detection\n"
        "values = {'class_ids': np.array([[1, 0]]), 'class_names': np.array([['b', 'a']]),"
        " 'boxes': np.array([[[0, 0, .5, 1], [0, 0, 0, 0]]]), 'scores': np.array([[.75, 0]])}\n"
        "print(json.dumps(detection.answers(values)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "serving", capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [
        {"objects": [{"class_id": 1, "class_name": "b", "score": 0.75, "box": [0, 0, 0.5, 1]}]}
    ]


def test_the_presets_are_for_this_task():
    assert PRESETS["shapes"].task == PRESETS["objects"].task == "detection"
