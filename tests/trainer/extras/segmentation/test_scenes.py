"""The embedded example of segmentation learns within minutes."""

import json

import pytest

from tests.trainer.support.command import result, run_trainer

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
