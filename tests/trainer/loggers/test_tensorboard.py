"""TensorBoard reads what we write."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trainer.loggers.tensorboard import Curves, rewind_curves


def test_tensorboard_finds_each_curve_with_its_steps(tmp_path):
    curves = Curves(tmp_path / "attempt-1")
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


def losses(folder):
    """Steps and values of a curve, over all files of an attempt, in the order of writing."""
    seen = EventAccumulator(str(folder), purge_orphaned_data=False)
    seen.Reload()
    if "train/loss" not in seen.Tags()["scalars"]:
        return []
    return [(point.step, point.value) for point in seen.Scalars("train/loss")]


def test_what_is_trained_again_is_in_the_curves_once(tmp_path):
    for attempt, steps in ((1, (5, 10, 15)), (2, (11, 16)), (3, (20,))):
        curves = Curves(tmp_path / f"attempt-{attempt}")
        for step in steps:
            curves.add("train", step, {"loss": float(step)})
        curves.close()
    untouched = next((tmp_path / "attempt-1").iterdir()).stat().st_ino
    rewind_curves(tmp_path, 15)
    assert losses(tmp_path / "attempt-1") == [(5, 5.0), (10, 10.0), (15, 15.0)]
    assert next((tmp_path / "attempt-1").iterdir()).stat().st_ino == untouched
    assert losses(tmp_path / "attempt-2") == [(11, 11.0)]
    assert losses(tmp_path / "attempt-3") == []

    # The same attempt continues in a file of its own, after it went back.
    curves = Curves(tmp_path / "attempt-2")
    curves.add("train", 16, {"loss": 0.5})
    curves.close()
    assert losses(tmp_path / "attempt-2") == [(11, 11.0), (16, 0.5)]
    assert len(list((tmp_path / "attempt-2").iterdir())) == 2


def test_a_file_that_was_cut_is_rewound_as_far_as_it_goes(tmp_path):
    curves = Curves(tmp_path / "attempt-1")
    for step in (5, 10, 15):
        curves.add("train", step, {"loss": float(step)})
    curves.close()
    (path,) = (tmp_path / "attempt-1").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    rewind_curves(tmp_path, 5)
    assert losses(tmp_path / "attempt-1") == [(5, 5.0)]


def test_a_full_disk_ends_the_curves_with_a_single_warning(tmp_path, monkeypatch, capsys):
    curves = Curves(tmp_path)
    file = type(curves._writer._general_file_writer)
    curves._writer._async_writer._writer._writer = file("/dev/full", "wb")
    for step in (1, 2):
        curves.add("train", step, {"loss": 1.0})
    curves.close()
    said = capsys.readouterr().out
    assert said.count("warning: ") == 1
    assert f"{tmp_path}: the curves of TensorBoard end" in said
