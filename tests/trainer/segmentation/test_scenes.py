"""The embedded example of segmentation: it learns within minutes, and continues to the bit."""

import json

import pytest

from tests.trainer.support.command import final_state, result, run_trainer
from trainer.data.manifest import load_manifest
from trainer.segmentation.leaf import SEGMENTATION

LEAST = 0.75
"""Mean IoU without background on the held-out images."""


@pytest.mark.long
def test_the_scenes_are_learned_on_two_ranks(tmp_path):
    done = run_trainer("train", "--preset", "scenes", "--name", "a", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs/a"
    assert result(run)["foreground_iou"] >= LEAST
    assert json.loads((run / "export/export.json").read_text())["task"] == "segmentation"
    assert len(list((run / "overlays").iterdir())) == 12
    page = (run / "report.html").read_text()
    assert "Pixels by class" in page
    assert "mean IoU without background" in page


@pytest.mark.slow
def test_a_segmentation_that_is_stopped_and_continued_ends_with_the_same_bits(tmp_path):
    small = [
        *("--preset", "scenes", "--model.width", "8", "--max-steps", "30"),
        *("--evaluation.every-epochs", "0", "--export", "False", "--restarts", "0"),
    ]

    def train(name, *options):
        done = run_trainer("train", *small, "--name", name, *options, cwd=tmp_path)
        return done.returncode, done.stderr

    code, err = train("whole")
    assert code == 0, err
    manifest = load_manifest(tmp_path / "data/scenes")
    assert manifest.splits["train"].examples == SEGMENTATION.embedded.examples
    assert train("parts", "--max-seconds", "0.001")[0] == 8
    assert result(tmp_path / "runs/whole")["steps"] == 30
    code, err = train("parts")
    assert code == 0, err
    assert final_state(tmp_path / "runs/parts") == final_state(tmp_path / "runs/whole")
    assert (tmp_path / "runs/parts/overlays").is_dir()
    assert "mean IoU" in (tmp_path / "runs/parts/report.html").read_text()
