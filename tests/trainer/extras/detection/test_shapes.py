"""The embedded example of detection learns within minutes, and its boxes are around its shapes."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.trainer.support.command import result, run_trainer
from trainer.data.builtin.photographs import TRAINING
from trainer.extras.detection.boxes import stored_boxes_fault, unpack
from trainer.extras.detection.data.shapes import CLASSES, SIZE, shapes
from trainer.extras.detection.leaf import BOXES

LEAST = 0.9
"""mAP at an IoU of 0.5 on the held-out images."""


def test_a_box_is_around_what_was_drawn():
    records, counted = shapes(TRAINING, 40), 0
    assert records == shapes(TRAINING, 40)
    for record in records:
        stored = record.more[BOXES]
        assert stored_boxes_fault(stored, SIZE, SIZE, len(CLASSES)) is None
        pixels = np.asarray(Image.open(io.BytesIO(record.encoded))).astype(int)
        for left, top, right, bottom, *_ in unpack(stored)[1] * SIZE:
            # A shape has one colour, in its middle and nowhere outside of its box.
            middle = pixels[int((top + bottom) / 2), int((left + right) / 2)]
            same = (np.abs(pixels - middle) <= 2).all(-1)
            rows, columns = np.nonzero(same[int(top) : int(bottom) + 1, int(left) : int(right) + 1])
            assert len(rows) > 25
            assert columns.max() + int(left) <= right + 1
            assert rows.max() + int(top) <= bottom + 1
            counted += 1
    assert counted > 60


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_shapes_are_learned_on_two_ranks(tmp_path, seed):
    done = run_trainer("train", "--preset", "shapes", "--seed", str(seed), "--name", "a",
                       cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs/a"
    found = result(run)
    assert found["map50"] >= LEAST
    assert found["training_seconds"] < 600
    assert json.loads((run / "export/export.json").read_text())["task"] == "detection"
    assert len(list((run / "overlays").iterdir())) == 12
    page = (run / "report.html").read_text()
    assert "Average precision by class" in page
    assert "Precision by recall" in page
