"""A server with a model whose weights or outputs are not finite."""

import subprocess

import numpy as np
import pytest

from tests import ROOT
from tests.trainer.support.made_run import make_exported_run
from trainer.data.builtin.writer import write_embedded
from trainer.scoring.server import PYTHON

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import numpy as np
import score

question = score.Question([score.PIXEL], ["pixel"], "image")
if sys.argv[2] == "weights":
    try:
        score.init()
    except RuntimeError as error:
        print(error)
else:
    score.init()
    values = score._model.values

    def broken(images):
        found = values(images)
        return {**found, "probabilities": found["probabilities"] * np.inf}

    for form in ("image", "images", "predictions", "outputs"):
        try:
            score.answer(broken, score.Question([score.PIXEL], ["pixel"], form))
        except score.NotFiniteError as error:
            print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["weights", "outputs"])
def test_a_model_that_is_not_finite_gets_no_requests_and_gives_no_answers(
    tmp_path, monkeypatch, what
):
    if what == "weights":
        # As an earlier version exported it.
        monkeypatch.setattr("trainer.model.weights.not_finite", lambda _: None)
        monkeypatch.setattr("tests.trainer.support.made_run.snapshot", spoiled)
    write_embedded("digits", str(tmp_path / "digits"))
    run = make_exported_run(tmp_path / "run", tmp_path / "digits")
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM, ROOT / "serving", what],
        env={"AZUREML_MODEL_DIR": str(run / "export"), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if what == "weights":
        assert "are not finite; use the export of another checkpoint" in done.stdout
    else:
        assert done.stdout.count("the outputs of the model are not finite") == 4


def spoiled(variables):
    from trainer.checkpoints.snapshot import snapshot

    tensors = snapshot(variables)
    name = next(name for name in tensors if name.endswith("logits/kernel"))
    tensors[name] = np.where(np.arange(tensors[name].size).reshape(tensors[name].shape), 0, np.nan)
    tensors[name] = tensors[name].astype(np.float32)
    return tensors
