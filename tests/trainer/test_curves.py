"""TensorBoard reads what we write."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trainer.curves import Curves


def test_tensorboard_finds_each_curve_with_its_steps(tmp_path):
    curves = Curves(str(tmp_path / "attempt-1"))
    curves.add("train", 5, {"loss": 2.5, "images_per_second": 100.0})
    curves.add("train", 10, {"loss": 1.25})
    curves.add("evaluation", 10, {"top1": 0.5})

    # On disk already, though the file is still open.
    seen = EventAccumulator(str(tmp_path / "attempt-1"))
    seen.Reload()
    assert set(seen.Tags()["scalars"]) == {
        *("train/loss", "train/images_per_second", "evaluation/top1"),
    }
    assert [(point.step, point.value) for point in seen.Scalars("train/loss")] == [
        *((5, 2.5), (10, 1.25)),
    ]
    assert seen.Scalars("evaluation/top1")[0].wall_time == pytest.approx(
        seen.Scalars("train/loss")[0].wall_time, abs=60
    )
    curves.close()
