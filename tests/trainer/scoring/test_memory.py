"""The memory of `ml-trainer score` does not grow with the images."""

import json
import sys
from types import SimpleNamespace

import pytest

from tests.trainer.data.prepare.test_memory import MOST_BYTES, bytes_per_file, write
from trainer.scoring import unit
from trainer.scoring.batch import score
from trainer.scoring.options import ScoreOptions


@pytest.fixture
def export(tmp_path, monkeypatch):
    """A folder of an export whose model gives each image the same class at once."""
    (tmp_path / "export/saved_model").mkdir(parents=True)
    (tmp_path / "export/saved_model/saved_model.pb").touch()
    (tmp_path / "export/export.json").write_text(json.dumps({"top": 1, "class_names": ["a"]}))
    model = SimpleNamespace(signatures={"serving_default": None})
    monkeypatch.setattr(unit, "_load", lambda _: model)
    answer = [{"class_id": 0, "class_name": "a", "probability": 1.0}]
    predict = SimpleNamespace(classify_files=lambda _, paths, facts: ((p, answer) for p in paths))
    monkeypatch.setitem(sys.modules, "trainer.export.predict", predict)
    return tmp_path / "export"


@pytest.mark.parametrize("names", ["kept", "hashed"])
def test_further_images_need_no_memory(export, tmp_path, monkeypatch, names):
    monkeypatch.setenv("TRAINER_NAME_KEY", "k" * 32)

    def score_all(count):
        root = tmp_path / str(count)
        options = ScoreOptions(
            model=str(export),
            input=str(root / "in"),
            output=str(root / "scores"),
            images_per_file=100,
            processes=1,
            names=names,
        )
        score(options)
        assert json.loads((root / "scores/_scores.json").read_text())["images"] == count
        # The second of two machines reads the list of the first: it takes kept names from there,
        # and compares hashed ones with its own.
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
        score(options)
        monkeypatch.delenv("OMPI_COMM_WORLD_SIZE")

    for count in (500, 2000):
        write(tmp_path / str(count), count)
    assert bytes_per_file(score_all) < MOST_BYTES
