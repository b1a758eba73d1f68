"""Numbers that are wrong and look right end with a status, a name and what to do."""

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.trainer.support import run_scenarios
from tests.trainer.support.command import TINY
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.made_run import make_exported_run
from tests.trainer.support.world import run_world
from trainer import cli
from trainer.checkpoints.folder import CheckpointFolder
from trainer.errors import NonFiniteError

NOT_FINITE = NonFiniteError.exit_code


@pytest.fixture(scope="module")
def run(digits_folder, tmp_path_factory):
    """The folder of a run with an export."""
    return make_exported_run(tmp_path_factory.mktemp("runs") / "run", digits_folder)


@pytest.fixture
def damaged(run, tmp_path, monkeypatch):
    """A function that writes a copy of the run, of which one weight in a checkpoint is damaged."""
    from tests.trainer.support.small_model import small_model

    monkeypatch.setattr("trainer.model.weights.build_model", small_model)

    def damage(name, value):
        copy = tmp_path / "damaged"
        shutil.copytree(run, copy)
        folder = CheckpointFolder(copy / "checkpoints")
        checkpoint = folder.newest()
        tensors = {key: array.copy() for key, array in checkpoint.load().items()}
        (key,) = (key for key in tensors if key.endswith(name))
        tensors[key].flat[0] = value
        folder.save(checkpoint.step + 1, tensors, checkpoint.meta)
        return copy, key

    return damage


@pytest.mark.parametrize("command", ["evaluate", "export"])
@pytest.mark.parametrize(
    ("name", "value"), [("moving_variance", np.nan), ("logits/kernel", np.inf)]
)
def test_weights_that_are_not_finite_are_neither_evaluated_nor_exported(
    damaged, monkeypatch, capsys, command, name, value
):
    monkeypatch.setattr("trainer.training.evaluator.set_up_device", lambda *_: None)
    copy, key = damaged(name, value)
    before = (copy / "export" / "export.json").read_bytes()
    assert cli.main([command, "--run", str(copy)]) == NOT_FINITE
    said = capsys.readouterr().err
    assert f"values of {key} are not finite" in said
    assert "use an earlier --checkpoint" in said
    assert (copy / "export" / "export.json").read_bytes() == before


@pytest.mark.parametrize("command", ["predict", "score"])
def test_an_exported_model_that_is_not_finite_is_not_used(
    damaged, tmp_path, monkeypatch, capfd, command
):
    copy, _ = damaged("logits/bias", np.nan)
    with monkeypatch.context() as patch:
        # As an earlier version exported it.
        patch.setattr("trainer.model.weights.not_finite", lambda _: None)
        assert cli.main(["export", "--run", str(copy)]) == 0
    image = tmp_path / "images" / "a.png"
    image.parent.mkdir()
    image.write_bytes(tf.io.encode_png(np.zeros([9, 9, 3], np.uint8)).numpy())
    scored = ["--input", str(image.parent), "--output", str(tmp_path / "out"), "--processes", "1"]
    rest = [str(image)] if command == "predict" else scored
    assert cli.main([command, *rest, "--run", str(copy)]) == NOT_FINITE
    said = capfd.readouterr().err
    assert "1 of 10 values of " in said
    assert "use the export of another checkpoint" in said


def test_scores_of_which_none_is_one_end_with_the_status_of_bad_data(run, tmp_path, capsys):
    source, output = tmp_path / "images", tmp_path / "scores"
    source.mkdir()
    for number in range(3):
        (source / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\nends too early")
    args = ["score", "--input", str(source), "--output", str(output), "--processes", "1"]
    for kind in ("parquet", "csv"):
        shutil.rmtree(output, ignore_errors=True)
        assert cli.main([*args, "--run", str(run), "--format", kind]) == 3
        said = capsys.readouterr().err
        assert "none of 3 images could be scored, the first because: " in said
        assert json.loads((output / "_scores.json").read_text())["unreadable"] == 3


def test_initial_weights_that_are_not_finite_are_refused(run, workplace, tmp_path):
    newest = CheckpointFolder(run / "checkpoints").newest()
    tensors = {name: array.copy() for name, array in newest.load().items()}
    name = next(name for name in tensors if name.endswith("moving_variance"))
    tensors[name].flat[0] = np.nan
    file = tmp_path / "state.safetensors"
    safetensors.numpy.save_file(tensors, file)
    given = ["--model.weights", str(file), "--name", "run"]
    ended = fork_trainer("train", *TINY, *given, cwd=workplace, ranks=1)
    assert ended.returncode == 4
    assert f"1 of {tensors[name].size:,} values of {name.removeprefix('model/')}" in ended.stderr


@pytest.mark.slow
def test_statistics_that_are_not_finite_end_a_run_before_they_are_saved_or_evaluated(workplace):
    args = ["train", *TINY, "--ranks", "1", "--name", "poisoned", "--checkpoint.every-steps", "5"]
    ((status, _, said),) = run_world(run_scenarios.poison_a_statistic, 1, args, str(workplace), 12)
    assert status == NOT_FINITE, said
    assert "moving_variance are not finite, although the loss is" in said
    newest = CheckpointFolder(workplace / "runs" / "poisoned" / "checkpoints").newest()
    assert all(np.isfinite(array).all() for array in newest.load().values())
    assert not (workplace / "runs" / "poisoned" / "result.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [1, 2])
def test_a_batch_norm_with_one_value_per_channel_is_refused(workplace, pieces):
    sizes = ["--batch-size", str(pieces), "--optimizer.accumulation", str(pieces)]
    args = ["train", *TINY, "--model.image-size", "16", "--model.stem", "7x7", "--max-steps", "1"]
    ended = fork_trainer(*args, *sizes, cwd=workplace, ranks=1, small=False)
    assert ended.returncode == 2
    assert "one value per channel" in ended.stderr
    assert f"take at least {2 * pieces}" in ended.stderr
