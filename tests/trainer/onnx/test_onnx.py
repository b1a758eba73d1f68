"""`export --onnx True`: the same answers as the SavedModel, or no export."""

import numpy as np
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
from trainer.onnx import exporter


@pytest.fixture
def run(digits_folder, tmp_path, monkeypatch):
    """The folder of a run without an export."""
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    return make_run(tmp_path / "run", tiny_config(str(digits_folder), name="run"))[0].path


@pytest.mark.slow
def test_it_answers_as_the_saved_model_does(run, digits_folder, capsys):
    assert cli.main(["export", "--run", str(run), "--onnx", "True"]) == 0
    assert "model.onnx differs by at most" in capsys.readouterr().out
    # Real images, decoded and cropped as a user of ONNX has to.
    records = read_shard(next(digits_folder.glob("validation-*")))
    images = [from_example(record).encoded for record in records][:50]
    pixels = tf.stack([central_image(tf.constant(image), 8, 1.0) for image in images])
    exported = tf.saved_model.load(str(run / "export" / "saved_model"))
    wanted = exported.signatures["pixels"](pixels=pixels)["probabilities"].numpy()
    session = onnxruntime.InferenceSession(str(run / "export" / "model.onnx"))
    (found,) = session.run(["probabilities"], {"pixels": pixels.numpy()})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert len(set(found.argmax(1))) > 1


@pytest.mark.slow
def test_a_model_that_differs_is_an_error_and_nothing_is_exported(run, monkeypatch, capsys):
    monkeypatch.setattr(exporter, "TOLERANCE", -1.0)
    assert cli.main(["export", "--run", str(run), "--onnx", "True"]) == 1
    assert "error: model.onnx: differs by" in capsys.readouterr().err
    assert {path.name for path in run.iterdir()} == {"config.json", "checkpoints"}
