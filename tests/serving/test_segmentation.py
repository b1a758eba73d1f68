"""The scoring script with a segmentation: masks and shares."""

import base64
import io
import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests import ROOT
from trainer.config import ModelConfig
from trainer.data.manifest import Normalization
from trainer.export.saved_model import save_model
from trainer.extras.segmentation.task import Segmentation
from trainer.model.build import build_model
from trainer.scoring.server import PYTHON
from trainer.tasks.task import Serving

CLASSES = ("ground", "Kätzchen", "犬")
SIZE = 16

PROGRAM = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import score

score.init()
image = Path(sys.argv[2]).read_bytes()
forms = ("image", "images", "predictions", "outputs")
questions = [score.Question([image] * (1 if form == "image" else 2), "ab", form) for form in forms]
answers = [score.answer(score._model.values, question) for question in questions]
Path(sys.argv[3]).write_text(json.dumps(dict(zip(forms, answers, strict=True))))
"""


@pytest.mark.long
def test_a_segmentation_answers_with_masks_and_the_parts_of_the_classes(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    (tmp_path / "image.png").write_bytes(buffer.getvalue())
    config = ModelConfig(network="dilated", width=4, image_size=SIZE)
    model = build_model(config, len(CLASSES), task="segmentation")
    serving = Serving(CLASSES, Normalization((127.0,) * 3, (60.0,) * 3), SIZE, 1.0, 5)
    save_model(Segmentation(len(CLASSES)), model, tmp_path / "saved_model", serving)
    exported = tf.saved_model.load(str(tmp_path / "saved_model"))
    found = exported.signatures["serving_default"](images=tf.constant([buffer.getvalue()]))
    mask, shares = found["masks"].numpy()[0], found["shares"].numpy()[0]
    wanted = {CLASSES[number]: float(part) for number, part in enumerate(shares) if part > 0}

    command = [
        PYTHON,
        "-c",
        PROGRAM,
        ROOT / "serving",
        tmp_path / "image.png",
        tmp_path / "answers",
    ]
    variables = {"AZUREML_MODEL_DIR": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "answers").read_text())

    single = answers["image"]
    parts = {entry["class_name"]: entry["share"] for entry in single["classes"]}
    assert parts == pytest.approx(wanted)
    assert list(parts.values()) == sorted(parts.values(), reverse=True)
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(single["mask"]))))
    assert np.array_equal(shown, mask)
    assert answers["images"]["images"] == [{"image": name, **single} for name in "ab"]
    for row in answers["predictions"]["predictions"]:
        assert (row["masks"], row["class_names"]) == (mask.tolist(), list(CLASSES))
    assert answers["outputs"]["outputs"]["masks"] == [mask.tolist()] * 2
