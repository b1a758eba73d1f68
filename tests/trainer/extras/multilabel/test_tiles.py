"""The embedded example of several classes per image is learned within two minutes."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.trainer.support.command import result, run_trainer
from trainer.data.builtin.digits import CLASSES, load_records
from trainer.extras.multilabel.leaf import MULTI_HOT
from trainer.extras.multilabel.tiles import SIZE, tiles

LEAST = 0.95
"""Mean AP on the held-out images."""


def test_an_image_shows_as_many_digits_as_it_has_classes_or_more():
    digits = load_records()
    records = tiles(digits, 60, "a")
    assert records == tiles(digits, 60, "a")
    counts = set()
    for record in records:
        pixels = np.asarray(Image.open(io.BytesIO(record.encoded)))
        places = pixels.reshape(2, SIZE // 2, 2, SIZE // 2, 3).max((1, 3, 4))
        classes = sum(record.more[MULTI_HOT])
        assert (places > 0).sum() >= classes
        assert bool(classes) == bool(places.any())
        counts.add(classes)
    assert counts == {0, 1, 2, 3, 4}
    assert len(CLASSES) == len(records[0].more[MULTI_HOT])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_tiles_are_learned_on_two_ranks(tmp_path, seed):
    done = run_trainer("train", "--preset", "tiles", "--seed", str(seed), "--name", "a",
                       cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs/a"
    found = result(run)
    assert found["mean_ap"] >= LEAST
    assert found["training_seconds"] < 120
    assert json.loads((run / "export/export.json").read_text())["task"] == "multilabel"
    assert len(list((run / "mistakes").iterdir())) == 24
    page = (run / "report.html").read_text()
    assert "Classes, the worst first" in page
    assert "Probability and frequency" in page
