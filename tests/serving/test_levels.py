"""The levels that a preparation has found, from the data set to the answers of its model."""

import base64
import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from tests import ROOT
from tests.trainer.data.intake.test_levels import folder
from tests.trainer.support.data_sets.image_folders import prepare, records
from tests.trainer.support.made_run import make_exported_run
from trainer.export.layout import export_facts
from trainer.export.predict import classify_files
from trainer.scoring.server import PYTHON

PROGRAM = """
import base64, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import score

score.init()
names = sys.argv[3:]
images = [score.treated(name, Path(name).read_bytes()) for name in names]
found = score.answer(score._model.values, score.Question(images, names, "images"))
sent = [base64.b64encode(image).decode() for image in images]
Path(sys.argv[2]).write_text(json.dumps([sent, found["images"]]))
"""


@pytest.mark.slow
def test_predict_and_serve_see_a_deep_image_as_prepare_stored_it(tmp_path):
    noise = np.random.default_rng(0)
    images = [noise.integers(0, 4096 >> n % 3, (16, 16), dtype=np.uint16) for n in range(24)]
    source = folder(tmp_path, images)
    manifest = prepare(source, tmp_path / "data")
    levels = manifest.origin.intake.levels
    assert levels == (0, 4095)
    run = make_exported_run(tmp_path / "run", tmp_path / "data")
    facts = export_facts(run / "export" / "saved_model")
    assert tuple(facts["levels"]) == levels
    stored = {
        record.filename: record.encoded
        for split in ("train", "validation")
        for record in records(tmp_path / "data", split)
    }
    files = [source / name for name in stored]
    model = tf.saved_model.load(str(run / "export" / "saved_model"))
    signature = model.signatures["serving_default"]
    wanted = signature(images=tf.constant(list(stored.values())))["probabilities"].numpy()

    found = classify_files(signature, files, facts)
    probabilities = [[one["probability"] for one in classes] for _, classes in found]
    np.testing.assert_allclose(probabilities, wanted, atol=1e-5)
    full = [
        [one["probability"] for one in classes]
        for _, classes in classify_files(signature, files, {})
    ]
    assert not np.allclose(full, wanted, atol=1e-4)

    command = [PYTHON, "-c", PROGRAM, ROOT / "serving", tmp_path / "answers", *files]
    variables = {"AZUREML_MODEL_DIR": str(run / "export"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sent, answers = json.loads((tmp_path / "answers").read_text())
    assert [base64.b64decode(image) for image in sent] == list(stored.values())
    probabilities = [[one["probability"] for one in answer["classes"]] for answer in answers]
    np.testing.assert_allclose(probabilities, wanted, rtol=0, atol=1e-6)
