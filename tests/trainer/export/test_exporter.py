"""Exported models: their answers without our code, and that they are complete or absent."""

import base64
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.made_run import STEP, make_run
from tests.trainer.support.scenarios import tiny_config
from trainer import cli
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.images import central_image, flip_and_normalize
from trainer.data.manifest import load_manifest
from trainer.data.pipeline import evaluation_batches
from trainer.data.source import Source
from trainer.export.exporter import export_model, export_run
from trainer.export.options import SavedModelOptions
from trainer.model.weights import load_model, variables_by_name
from trainer.presets import PRESETS

TOLERANCE = 1e-5

# The program of a stranger: TensorFlow and NumPy, started where this project cannot be imported.
STRANGER = """
import base64, importlib.util, json, sys
# The environment also has the commands of this project, by a finder; a stranger's does not.
for finder in [*sys.meta_path]:
    if "__editable__" in str(vars(finder).get("__module__")):
        sys.meta_path.remove(finder)
import numpy as np
import tensorflow as tf
assert importlib.util.find_spec("trainer") is None
task = json.loads(open(sys.argv[1]).read())
model = tf.saved_model.load(task["model"])
serve = model.signatures["serving_default"]
answers = {}
for name, batch in task["batches"].items():
    images = tf.constant([base64.b64decode(image) for image in batch], tf.string)
    try:
        found = {key: value.numpy() for key, value in serve(images=images).items()}
    except tf.errors.InvalidArgumentError as error:
        answers[name] = error.message
        continue
    answers[name] = {
        key: {"type": str(value.dtype), "shape": value.shape,
              "values": np.char.decode(value.astype("S")).tolist() if value.dtype == object
                        else value.tolist()}
        for key, value in found.items()
    }
json.dump(answers, open(sys.argv[2], "w"))
"""


def encode(pixels, kind="PNG", mode=None, **options):
    image = Image.fromarray(pixels)
    return saved(image.convert(mode) if mode else image, kind, **options)


def ask(folder, model, batches):
    """The answers of an exported model in a process without this project."""
    folder.mkdir(parents=True)
    (folder / "stranger.py").write_text(STRANGER)
    coded = {name: [base64.b64encode(i).decode() for i in batch] for name, batch in batches.items()}
    (folder / "task.json").write_text(json.dumps({"model": str(model), "batches": coded}))
    done = subprocess.run(
        [sys.executable, "stranger.py", "task.json", "answers.json"],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "answers.json").read_text())


@pytest.fixture(scope="module")
def exported(digits_folder, tmp_path_factory):
    """A run that has exported its model as at its end, and the answers of its checkpoint."""
    config = tiny_config(str(digits_folder), name="run")
    folder, record, model = make_run(tmp_path_factory.mktemp("exported") / "run", config)
    export_model(folder, record, variables_by_name(model), STEP, None)
    manifest = load_manifest(digits_folder)
    split = manifest.splits["validation"]
    source = Source(digits_folder, split, 10, config.model.image_size, config.data, config.seed)
    found = folder.find_checkpoint("last")
    model = load_model(config, 10, "float32", found.load(), found.path)
    probabilities = []
    for batch in evaluation_batches(source, 0, 1, 90, 1):
        image = flip_and_normalize(batch["image"], batch["flip"], manifest.normalization)
        probabilities.append(tf.nn.softmax(model(image, training=False)).numpy())
    return SimpleNamespace(
        run=folder.path,
        export=folder.path / "export",
        images=[
            from_example(record).encoded
            for shard in split.shards
            for record in read_shard(digits_folder / shard.file)
        ],
        probabilities=np.concatenate(probabilities),
    )


@pytest.fixture(scope="module")
def answers(exported, tmp_path_factory):
    """The results of a stranger with the export of that run."""
    smooth = np.linspace(0, 255, 40 * 60 * 3).reshape(40, 60, 3).astype(np.uint8)
    pictures = [encode(smooth), encode(smooth, "JPEG"), encode(smooth[:, :, 0], "JPEG")]
    batches = {
        "held out": exported.images,
        "none": [],
        "one": exported.images[:1],
        "seven": [*pictures, *exported.images[:4]],
        "alone": pictures[1:2],
        "not an image": [exported.images[0], b"years of work", b""],
        "half a PNG": [exported.images[0], encode(smooth)[:200]],
        "half a JPEG": [encode(smooth, "JPEG")[:500]],
        "a GIF": [encode(smooth, "GIF")],
    }
    place = tmp_path_factory.mktemp("elsewhere") / "stranger"
    return ask(place, exported.export / "saved_model", batches)


def signature(folder, name):
    exported = tf.saved_model.load(str(folder / "saved_model"))
    function = exported.signatures[name]
    function.keep = exported
    return function


def facts(folder):
    return json.loads((folder / "export.json").read_text())


# 1. Answers of an export without this project.


@pytest.mark.slow
def test_a_stranger_gets_the_checkpoints_own_predictions(exported, answers):
    found, wanted = answers["held out"], exported.probabilities
    assert len(exported.images) == len(wanted) == 360
    order = np.argsort(-wanted, axis=1, kind="stable")[:, :5]
    assert found["class_ids"]["values"] == order.tolist()
    assert found["class_names"]["values"] == [[str(n) for n in row] for row in order.tolist()]
    difference = np.abs(
        np.array(found["probabilities"]["values"]) - np.take_along_axis(wanted, order, 1)
    ).max()
    print(f"largest difference in a probability: {difference:.3g}")
    assert difference <= TOLERANCE
    # Not the same answer for every image.
    assert np.ptp(wanted, 0).max() > 100 * TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "size"), [("none", 0), ("one", 1), ("seven", 7)])
def test_a_batch_of_any_size_has_the_promised_shapes_and_types(answers, batch, size):
    kinds = {name: (v["type"], v["shape"]) for name, v in answers[batch].items()}
    assert kinds == {
        "class_ids": ("int64", [size, 5]),
        "class_names": ("object", [size, 5]),
        "probabilities": ("float32", [size, 5]),
    }


@pytest.mark.slow
def test_an_image_has_the_same_answer_among_others(answers):
    among, alone = answers["seven"], answers["alone"]
    assert among["class_ids"]["values"][1] == alone["class_ids"]["values"][0]
    np.testing.assert_allclose(
        among["probabilities"]["values"][1], alone["probabilities"]["values"][0], atol=TOLERANCE
    )
    single, first = answers["one"]["probabilities"], among["probabilities"]
    np.testing.assert_allclose(first["values"][3], single["values"][0], atol=TOLERANCE)


KERAS_3 = """
import sys, keras, numpy as np, tensorflow as tf

folder = sys.argv[1]
try:
    keras.models.load_model(folder)
except ValueError as error:
    assert "legacy SavedModel format is not supported" in str(error)
model = tf.saved_model.load(folder)
png = tf.io.encode_png(np.full([9, 9, 3], 90, np.uint8))
pixels = np.random.default_rng(0).integers(0, 256, [2, 8, 8, 3], dtype=np.uint8)
for name, given in (("images", tf.stack([png])), ("pixels", tf.constant(pixels))):
    endpoint = "serving_default" if name == "images" else name
    layer = keras.layers.TFSMLayer(folder, call_endpoint=endpoint)
    wanted = model.signatures[endpoint](**{name: given})
    assert all(np.array_equal(layer(given)[key], wanted[key]) for key in wanted)
image = keras.Input([8, 8, 3], dtype="uint8")
inside = keras.Model(image, layer(image)).predict(pixels, verbose=0)["probabilities"]
np.testing.assert_allclose(inside, wanted["probabilities"], rtol=1e-5)
print(keras.__version__)
"""


@pytest.mark.long
def test_keras_3_calls_both_signatures_as_a_layer(exported, tmp_path):
    (tmp_path / "keras3.py").write_text(KERAS_3)
    done = subprocess.run(
        [sys.executable, "keras3.py", exported.export / "saved_model"],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ("not an image", "before they are sent, number, positions from 0 and reasons:] [2] [1 2]"),
        ("half a PNG", "Invalid PNG data"),
        ("half a JPEG", "Invalid JPEG data"),
        ("a GIF", "neither JPEG nor PNG"),
    ],
)
def test_a_broken_image_is_refused_with_its_fault(answers, batch, words):
    assert words in answers[batch]


@pytest.mark.parametrize(
    ("kind", "mode", "options"),
    [
        ("JPEG", "CMYK", {"quality": 95}),
        ("JPEG", "L", {"quality": 95}),
        ("JPEG", None, {"quality": 95, "progressive": True, "subsampling": 0}),
        ("PNG", "L", {}),
        ("PNG", "P", {}),
        ("PNG", "1", {}),
        ("PNG", "RGBA", {}),
        ("PNG", "I;16", {}),
    ],
)
def test_every_kind_of_jpeg_and_png_is_decoded_as_pillow_does(kind, mode, options):
    grey = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1))
    if mode == "I;16":
        encoded, wanted = encode(grey.astype(np.uint16) * 257, **options), np.stack([grey] * 3, 2)
    else:
        pixels = grey if mode == "L" else np.stack([grey, grey.T, grey // 2], 2)
        encoded = encode(pixels, kind, mode, **options)
        with Image.open(io.BytesIO(encoded)) as image:
            wanted = np.asarray(image.convert("RGB"))
    found = central_image(tf.constant(encoded), 64, 1.0).numpy()
    assert np.abs(found.astype(int) - wanted).max() <= (0 if kind == "PNG" else 4)


# 2. Exports of one run.


@pytest.mark.slow
def test_the_export_at_the_end_of_a_run_is_what_the_command_exports(exported, tmp_path, capsys):
    again = tmp_path / "again"
    assert cli.main(["export", "--run", str(exported.run), "--output", str(again)]) == 0
    assert capsys.readouterr().out.startswith(f"{again}: SavedModel of {exported.run}")
    assert facts(again) == facts(exported.export)
    assert (facts(again)["run"], facts(again)["step"]) == ("run", STEP)
    pixels = tf.constant(np.random.default_rng(1).integers(0, 256, (9, 8, 8, 3)), tf.uint8)
    first, second = (
        signature(folder, "pixels")(pixels=pixels)["probabilities"].numpy()
        for folder in (exported.export, again)
    )
    assert np.array_equal(first, second)


@pytest.mark.long
def test_a_run_in_mixed_precision_is_exported_in_float32_and_left_as_it_is(digits_folder, tmp_path):
    config = tiny_config(str(digits_folder), name="mixed")
    mixed = replace(config, compute=replace(config.compute, precision="mixed_float16"))
    folder, record, model = make_run(tmp_path / "mixed", mixed)
    before = [v.numpy().tobytes() for v in model.variables]
    evaluation = {"top1": 0.5, "top5": 0.75, "loss": 1.5, "examples": 360}
    path = export_model(folder, record, variables_by_name(model), STEP, evaluation)
    assert path == folder.path / "export"
    assert [v.numpy().tobytes() for v in model.variables] == before
    assert {layer.compute_dtype for layer in model.layers} == {"float16", "float32"}

    pixels = signature(path, "pixels")
    definition = pixels.graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    assert nodes
    assert tf.float16.as_datatype_enum not in {
        value.type for node in nodes for value in node.attr.values()
    }
    assert not any(node.attr["_XlaMustCompile"].b for node in nodes)
    found = folder.find_checkpoint("last")
    float32 = load_model(config, 10, "float32", found.load(), found.path)
    batch = tf.constant(np.random.default_rng(1).integers(0, 256, (9, 8, 8, 3)), tf.uint8)
    normalization = record.normalization
    inputs = (batch.numpy() - np.array(normalization.mean)) / np.array(normalization.std)
    wanted = tf.nn.softmax(float32(inputs.astype(np.float32), training=False)).numpy()
    np.testing.assert_allclose(
        pixels(pixels=batch)["probabilities"].numpy(), wanted, rtol=0, atol=TOLERANCE
    )
    assert facts(path)["evaluation"] == evaluation


def test_a_synthetic_run_has_numbered_classes(tmp_path):
    preset = PRESETS["synthetic"]
    small = replace(preset.model, depth=18, width=4, image_size=32, classes=3)
    folder, _, _ = make_run(tmp_path / "run", replace(preset, model=small, name="run"))
    path = export_run(SavedModelOptions(run=str(folder.path)))
    assert facts(path)["class_names"] == ["class 0", "class 1", "class 2"]
    assert (facts(path)["top"], facts(path)["evaluation"]) == (3, None)
    noise = np.random.default_rng(0).integers(0, 256, (50, 40, 3)).astype(np.uint8)
    serve = signature(path, "serving_default")
    for images in ([], [encode(noise)]):
        found = serve(images=tf.constant(images, tf.string))
        assert found["class_names"].shape == (len(images), 3)
    assert sorted(found["class_names"].numpy()[0]) == [b"class 0", b"class 1", b"class 2"]
    assert [name for name, config in PRESETS.items() if not config.export] == ["synthetic"]
