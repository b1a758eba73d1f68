"""`export --precision float16`: kernels of half the size, and the accuracy that this costs."""

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.made_run import make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer import cli
from trainer.export.exported import Validation, bytes_in, of_signature
from trainer.training.evaluator import evaluate_run
from trainer.training.options import EvaluateOptions


@pytest.fixture
def run(digits_folder, tmp_path, monkeypatch):
    """The folder of a run without an export, and its record."""
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    return make_run(tmp_path / "run", tiny_config(str(digits_folder), name="run"))


@pytest.mark.slow
def test_kernels_are_stored_as_float16_and_both_signatures_answer_nearly_the_same(
    run, capsys, monkeypatch
):
    folder, record, _ = run
    assert cli.main(["export", "--run", str(folder.path), "--precision", "float16"]) == 0
    assert "saved_model_float16: top-1 " in capsys.readouterr().out
    export = folder.path / "export"
    plain, half = (
        tf.saved_model.load(str(export / name)) for name in ("saved_model", "saved_model_float16")
    )
    kinds = {(weight.shape.rank > 1, weight.dtype) for weight in half.weights}
    assert kinds == {(True, tf.float16), (False, tf.float32)}
    files = [export / name / "variables" for name in ("saved_model_float16", "saved_model")]
    assert bytes_in(files[0]) < 0.6 * bytes_in(files[1])
    validation = Validation(folder.path, record)
    pixels = next(validation.training_pixels(1))
    wanted, found = (of_signature(model.signatures["pixels"])(pixels) for model in (plain, half))
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 0.02
    # Exactly the result that an evaluation of the checkpoint has, on devices as they are here.
    monkeypatch.setattr("trainer.training.evaluator.set_up_device", lambda *_: None)
    evaluated = evaluate_run(EvaluateOptions(run=str(folder.path))).metrics["top1"]
    assert validation.score(of_signature(plain.signatures["pixels"])) == evaluated
