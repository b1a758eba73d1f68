"""A data set and a run that an earlier version wrote are read, checked and continued.

`written_before/` was made by the version before the code moved into rooms: 36 and 4 images of two
classes, and a run of 18 steps that saved after steps 9 and 18:

    python -m trainer prepare folder --input images --output data --processes 1
    python -m trainer train --preset images --data.dir data --name run --model.depth 18
        --model.width 1 --model.image-size 8 --epochs 2 --batch-size 4 --ranks 1 --restarts 0
        --data.streams 2 --data.shuffle-window 8 --log.every-steps 2 --optimizer.warmup-epochs 0.5
        --log.report False --export False

`heads` is a run of the version before the options of features had groups of their own, with the
same options but --ranks 2 --batch-size 2 --model.head-groups 2.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.support.command import metrics, result
from tests.trainer.support.forked import fork_trainer
from trainer.checkpoints.folder import CheckpointFolder
from trainer.head.leaf import HeadOptions
from trainer.run_folder import RunFolder

BEFORE = Path(__file__).with_name("written_before")
OPTIONS = [
    *("--preset", "images", "--data.dir", "data", "--name", "run", "--model.depth", "18"),
    *("--model.width", "1", "--model.image-size", "8", "--epochs", "2", "--batch-size", "4"),
    *("--ranks", "1", "--restarts", "0", "--data.streams", "2", "--data.shuffle-window", "8"),
    *("--log.every-steps", "2", "--optimizer.warmup-epochs", "0.5", "--log.report", "False"),
    *("--export", "False"),
]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(BEFORE / "data", tmp_path / "data")
    for name in ("run", "heads"):
        shutil.copytree(BEFORE / name, tmp_path / "runs" / name)
    return tmp_path


def newest(run):
    found = CheckpointFolder(run / "checkpoints").newest()
    assert found is not None
    return found


@pytest.mark.slow
def test_a_data_set_of_before_passes_its_check(folder):
    done = fork_trainer("verify", "data", "--deep", cwd=folder, ranks=1)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_run_of_before_is_evaluated_and_reported(folder):
    before = result(BEFORE / "run")
    done = fork_trainer("evaluate", "--run", "runs/run", cwd=folder, ranks=1, small=False)
    assert done.returncode == 0, done.stderr
    assert f"{before['top1']:.2%}" in done.stdout
    done = fork_trainer("report", "runs/run", cwd=folder, ranks=1)
    assert done.returncode == 0, done.stderr
    page = (folder / "runs" / "run" / "report.html").read_text()
    assert f"{before['top1']:.2%}" in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [("run", []), ("heads", ["--ranks", "2", "--batch-size", "2", "--head.groups", "2"])],
)
def test_a_run_of_before_goes_on_to_the_weights_that_it_would_have_had(folder, name, options):
    run = folder / "runs" / name
    ended = newest(run).load()
    shutil.rmtree(run / "checkpoints" / "step-0000000018.a1")
    (run / "result.json").unlink()
    args = ("train", *OPTIONS, "--name", name, *options)
    done = fork_trainer(*args, cwd=folder, ranks=2 if options else 1, small=False)
    assert done.returncode == 0, done.stderr
    assert newest(run).step == 18
    state = newest(run).load()
    assert state.keys() == ended.keys()
    for variable, array in ended.items():
        # Not to the bit: another processor may add in another order.
        np.testing.assert_allclose(state[variable], array, rtol=1e-3, atol=1e-5, err_msg=variable)
    assert [line["step"] for line in metrics(run, "train")] == [*range(2, 19, 2)]


def test_options_of_before_are_read_by_their_present_names():
    config = RunFolder(BEFORE / "heads").read().config
    assert config.of(HeadOptions).groups == 2
    assert (config.averaging.every, config.averaging.together_until) == (1, 0.5)
    assert (config.sharded.state, config.profile.steps, config.stages.count) == (False, None, 1)


def test_the_configuration_of_before_is_read_whole():
    config = RunFolder(BEFORE / "run").read().config
    assert (config.name, config.data.dir, config.model.depth, config.epochs) == (
        "run",
        "data",
        18,
        2,
    )
