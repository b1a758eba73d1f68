"""The scoring script with several classes per image: each class by itself."""

import json
import subprocess

import pytest
import tensorflow as tf

from tests import ROOT
from tests.serving.test_segmentation import CLASSES, PROGRAM, SIZE
from trainer.config import ModelConfig
from trainer.data.builtin.digits import load_records
from trainer.data.manifest import Normalization
from trainer.export.saved_model import save_model
from trainer.extras.multilabel.task import Multilabel
from trainer.model.build import build_model
from trainer.scoring.server import PYTHON
from trainer.tasks.task import Serving


@pytest.mark.long
def test_every_class_is_answered_with_its_probability_and_whether_it_is_present(tmp_path):
    image = load_records()[0].encoded
    (tmp_path / "image.png").write_bytes(image)
    model = build_model(
        ModelConfig(depth=18, width=4, stem="3x3", image_size=SIZE), len(CLASSES), task="multilabel"
    )
    serving = Serving(CLASSES, Normalization((127.0,) * 3, (60.0,) * 3), SIZE, 1.0, 1)
    save_model(Multilabel(len(CLASSES)), model, tmp_path / "saved_model", serving)
    exported = tf.saved_model.load(str(tmp_path / "saved_model"))
    found = exported.signatures["serving_default"](images=tf.constant([image]))
    parts = dict(zip(CLASSES, found["class_probabilities"].numpy()[0].tolist(), strict=True))

    command = [PYTHON, "-c", PROGRAM, ROOT / "serving", tmp_path / "image.png", tmp_path / "out"]
    variables = {"AZUREML_MODEL_DIR": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "out").read_text())
    single = answers["image"]["classes"]
    assert {one["class_name"]: one["probability"] for one in single} == pytest.approx(parts)
    assert single == sorted(single, key=lambda one: -one["probability"])
    assert all(one["present"] is (one["probability"] >= 0.5) for one in single)
    assert answers["images"]["images"] == [{"image": name, "classes": single} for name in "ab"]
    for row in answers["predictions"]["predictions"]:
        assert row["class_names"] == list(CLASSES)
        assert all(isinstance(value, bool) for value in row["present"])
