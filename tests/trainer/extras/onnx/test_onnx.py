"""`export --onnx True` and `--int8 True`: the answers of the SavedModel, or no export."""

import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf

from tests.trainer.support.made_run import make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer import cli
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.images import central_image
from trainer.export.exported import Validation
from trainer.extras.onnx import exporter


@pytest.fixture
def run(digits_folder, tmp_path, monkeypatch):
    """The folder of a run without an export."""
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    return make_run(tmp_path / "run", tiny_config(str(digits_folder), name="run"))[0].path


def validation_pixels(folder):
    records = read_shard(next(folder.glob("validation-*")))
    images = [from_example(record).encoded for record in records][:50]
    return tf.stack([central_image(tf.constant(image), 8, 1.0) for image in images]).numpy()


@pytest.mark.slow
def test_it_answers_as_the_saved_model_does(run, digits_folder, capsys):
    assert cli.main(["export", "--run", str(run), "--onnx", "True"]) == 0
    assert "model.onnx differs by at most" in capsys.readouterr().out
    # Real images, decoded and cropped as a user of ONNX has to.
    pixels = validation_pixels(digits_folder)
    exported = tf.saved_model.load(str(run / "export" / "saved_model"))
    wanted = exported.signatures["pixels"](pixels=tf.constant(pixels))["probabilities"].numpy()
    session = onnxruntime.InferenceSession(str(run / "export" / "model.onnx"))
    (found,) = session.run(["probabilities"], {"pixels": pixels})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert len(set(found.argmax(1))) > 1


@pytest.mark.long
def test_8_bits_answer_nearly_as_32_in_a_fraction_of_the_bytes(run, digits_folder, capsys):
    assert cli.main(["export", "--run", str(run), "--int8", "True"]) == 0
    said = capsys.readouterr().out
    assert "model-int8.onnx: top-1 " in said
    assert not (run / "export" / "model.onnx").exists()
    pixels = validation_pixels(digits_folder)
    model = onnx.load(run / "export" / "model-int8.onnx")
    kinds = {initializer.data_type for initializer in model.graph.initializer}
    assert onnx.TensorProto.INT8 in kinds
    small = exporter.probabilities_of(run / "export" / "model-int8.onnx")(pixels)
    exported = tf.saved_model.load(str(run / "export" / "saved_model"))
    wanted = exported.signatures["pixels"](pixels=tf.constant(pixels))["probabilities"].numpy()
    np.testing.assert_allclose(small, wanted, rtol=0, atol=0.1)
    assert (small.argmax(1) == wanted.argmax(1)).mean() > 0.9
    assert (small != wanted).any()


@pytest.mark.long
def test_a_model_of_8_bits_that_loses_accuracy_is_refused(run, monkeypatch, capsys):
    scores = iter((0.9, 0.98))
    monkeypatch.setattr(Validation, "score", lambda *_: next(scores))
    asked = ["export", "--run", str(run), "--int8", "True", "--max-accuracy-loss", "0.07"]
    assert cli.main(asked) == 1
    said = capsys.readouterr().err
    assert "model-int8.onnx: top-1 90.00% (float32: 98.00%): the loss is more than 7.00%" in said
    assert {path.name for path in run.iterdir()} == {"config.json", "checkpoints"}


@pytest.mark.slow
def test_a_model_that_differs_is_an_error_and_nothing_is_exported(run, monkeypatch, capsys):
    monkeypatch.setattr(exporter, "TOLERANCE", -1.0)
    assert cli.main(["export", "--run", str(run), "--onnx", "True"]) == 1
    assert "error: model.onnx: differs by" in capsys.readouterr().err
    assert {path.name for path in run.iterdir()} == {"config.json", "checkpoints"}
