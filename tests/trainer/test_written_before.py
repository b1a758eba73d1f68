"""Data sets and runs that earlier versions wrote are read, checked and continued.

`written_before/` was made by versions before the code moved into rooms, and before its features
became leaves: 36 and 4 images of two classes, as TFRecords (`data`) and as Parquet (`parquet`), and
runs of 18 steps that saved after steps 9 and 18:

    ml-trainer prepare folder --input images --output data --processes 1
    ml-trainer prepare parquet --input parquet --class-names names.txt
    ml-trainer train --preset images --data.dir data --name run --model.depth 18
        --model.width 1 --model.image-size 8 --epochs 2 --batch-size 4 --ranks 1 --restarts 0
        --data.streams 2 --data.shuffle-window 8 --log.every-steps 2 --optimizer.warmup-epochs 0.5
        --log.report False --export False

`parquet_run` differs in --data.dir parquet; `head_run` in --ranks 2 --batch-size 2 and a last layer
that two ranks share, then called --model.head-groups 2.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import trainer
from tests.trainer.support.command import metrics, result
from tests.trainer.support.forked import fork_trainer
from trainer.checkpoints.folder import CheckpointFolder
from trainer.extras.head.leaf import HeadOptions
from trainer.report.run_data import read_run
from trainer.run_folder import RunFolder

BEFORE = Path(__file__).with_name("written_before")
OPTIONS = [
    *("--preset", "images", "--model.depth", "18"),
    *("--model.width", "1", "--model.image-size", "8", "--epochs", "2"),
    *("--restarts", "0", "--data.streams", "2", "--data.shuffle-window", "8"),
    *("--log.every-steps", "2", "--optimizer.warmup-epochs", "0.5", "--log.report", "False"),
    *("--export", "False"),
]


@dataclass(frozen=True)
class Run:
    name: str
    ranks: int
    options: tuple[str, ...]


RUNS = [
    Run("run", 1, ("--data.dir", "data", "--batch-size", "4")),
    Run("parquet_run", 1, ("--data.dir", "parquet", "--batch-size", "4")),
    Run("head_run", 2, ("--data.dir", "data", "--batch-size", "2", "--head.groups", "2")),
]


@pytest.fixture
def folder(tmp_path):
    for data in ("data", "parquet"):
        shutil.copytree(BEFORE / data, tmp_path / data)
    for run in RUNS:
        shutil.copytree(BEFORE / run.name, tmp_path / "runs" / run.name)
    return tmp_path


def newest(run):
    found = CheckpointFolder(run / "checkpoints").newest()
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("data", ["data", "parquet"])
def test_a_data_set_of_before_passes_its_check(folder, data):
    done = fork_trainer("verify", data, "--deep", cwd=folder, ranks=1)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_of_before_is_evaluated_and_reported(folder, run):
    before = result(BEFORE / run.name)
    path = f"runs/{run.name}"
    done = fork_trainer("evaluate", "--run", path, cwd=folder, ranks=1, small=False)
    assert done.returncode == 0, done.stderr
    assert f"{before['top1']:.2%}" in done.stdout
    done = fork_trainer("report", path, cwd=folder, ranks=1)
    assert done.returncode == 0, done.stderr
    assert f"{before['top1']:.2%}" in (folder / path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_run_of_before_goes_on_to_the_weights_that_it_would_have_had(folder, run):
    path = folder / "runs" / run.name
    ended = newest(path).load()
    shutil.rmtree(path / "checkpoints" / "step-0000000018.a1")
    (path / "result.json").unlink()
    command = ["train", *OPTIONS, *run.options, "--name", run.name, "--ranks", str(run.ranks)]
    done = fork_trainer(*command, cwd=folder, ranks=run.ranks, small=False)
    assert done.returncode == 0, done.stderr
    assert newest(path).step == 18
    state = newest(path).load()
    assert state.keys() == ended.keys()
    for name, array in ended.items():
        # Not bit-identical: another processor may add in another order.
        np.testing.assert_allclose(state[name], array, rtol=1e-3, atol=1e-5, err_msg=name)
    assert [line["step"] for line in metrics(path, "train")] == [*range(2, 19, 2)]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_files_of_before_are_those_of_version_0_1_0(run):
    stored = json.loads((BEFORE / run.name / "config.json").read_text())
    [start, *_] = (json.loads(line) for line in (BEFORE / run.name / "metrics.jsonl").open())
    assert stored["code_version"] == start["environment"]["trainer"] == "0.1.0"
    assert trainer.__version__ != "0.1.0"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_configuration_of_before_is_read_whole(run):
    stored = json.loads((BEFORE / run.name / "config.json").read_text())
    config = RunFolder(BEFORE / run.name).read().config
    assert (config.name, config.model.depth, config.epochs) == (run.name, 18, 2)
    assert config.data.dir == stored["config"]["data"]["dir"]


def test_options_of_before_are_read_by_their_present_names():
    config = RunFolder(BEFORE / "head_run").read().config
    assert config.of(HeadOptions).groups == 2
    assert read_run(BEFORE / "head_run").config == config
    assert (config.averaging.every, config.averaging.together_until) == (1, 0.5)
    assert (config.sharded.state, config.profile.steps, config.stages.count) == (False, None, 1)
