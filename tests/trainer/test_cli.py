"""The everyday commands, as a newcomer types them."""

import csv
import json
import re

import pytest

from common.fields import from_dict
from tests.trainer.support.command import TINY, metrics, result, run_trainer
from tests.trainer.support.forked import fork_trainer
from trainer import cli
from trainer.config import TrainConfig
from trainer.data.builtin.digits import VALIDATION_PER_CLASS
from trainer.presets import PRESETS
from trainer.training.plan import EMBEDDED_EXAMPLES


@pytest.fixture
def run_here(tmp_path, monkeypatch, capsys):
    """Run a command in this process; its status, and its output."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        status = cli.main(args)
        written = capsys.readouterr()
        return status, written.out, written.err

    return run


def test_dry_run_shows_the_configuration_and_writes_nothing(run_here, tmp_path):
    status, out, _ = run_here("train", "--dry-run", "--epochs", "10")
    assert status == 0
    lines = dict(line.split(None, 1) for line in out.splitlines() if "  " in line)
    assert lines["epochs"] == "10"
    assert lines["optimizer.nesterov"] == "True"
    assert "64 images per step" in out
    assert "22.45" in out
    assert "0.1 at its peak" in out
    assert not list(tmp_path.iterdir())


def test_dry_run_says_what_a_rate_is_of_and_warns(run_here):
    options = ["--optimizer.rate-scaling", "none", "--optimizer.learning-rate", "0.8"]
    status, out, err = run_here("train", "--dry-run", "--batch-size", "512", *options)
    assert status == 0
    assert "0.8 at its peak (absolute)" in out
    assert "warning: --model.batch-norm-momentum: 0.9 keeps" in err
    status, out, err = run_here("train", "--dry-run", "--preset", "imagenet-lars-4096")
    assert status == 0
    assert "The derived numbers need the data set's manifest" in out
    assert "warning: --preset: imagenet-lars-4096 is for a global batch of 4,096 images" in err
    _, out, err = run_here("train", "--dry-run")
    assert "0.1 at its peak (0.4 per 256 images)" in out
    assert err == ""


def test_dry_run_knows_the_size_of_the_embedded_data(digits_folder):
    manifest = json.loads((digits_folder / "manifest.json").read_text())
    train = sum(shard["examples"] for shard in manifest["splits"]["train"]["shards"])
    assert train == EMBEDDED_EXAMPLES["digits"]
    assert manifest["splits"]["validation"]["class_counts"] == [VALIDATION_PER_CLASS] * 10


@pytest.mark.parametrize(("args", "status"), [(["prepare"], 2), (["prepare", "-h"], 0)])
def test_usage(run_here, args, status):
    found, out, err = run_here(*args)
    assert found == status
    assert "ml-trainer prepare KIND" in out + err
    assert "\n  prepare webdataset  " in out + err


def test_the_help_lists_every_command_once_by_group(run_here):
    status, out, _ = run_here("--help")
    assert status == 0
    assert re.findall(r"^(\S.*):$", out, re.MULTILINE) == list(cli.PROGRAM.groups)
    for command in cli.COMMANDS:
        assert len(re.findall(rf"^  {command.name} ", out, re.MULTILINE)) == 1
        assert command.group in cli.PROGRAM.groups
        assert callable(command.load_run())
        assert not command.options or command.load_options()()


def test_a_data_set_must_be_named_once(run_here):
    for command in ("verify", "inspect"):
        status, _, err = run_here(command)
        assert status == 2
        assert f"{command}: DIR is missing" in err
        status, _, err = run_here(command, "a", "b")
        assert status == 2
        assert "b: unexpected argument" in err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["prepare", "folder"], ["(with make: INPUT=DIR)"]),
        (["predict"], ["(with make: IMAGES=...)"]),
        (["score"], ["(with make: INPUT=DIR)", "(with make: OUTPUT=DIR)"]),
    ],
)
def test_a_missing_folder_is_named_as_make_takes_it(run_here, args, told):
    status, _, err = run_here(*args)
    assert status == 2
    assert [one for one in told if one not in err] == []


def test_a_former_option_is_refused_with_its_new_name(run_here):
    status, _, err = run_here("train", "--checkpoint.roll-backs", "5")
    assert status == 2
    assert "--checkpoint.roll-backs: is now called --checkpoint.rollbacks" in err


def test_prepare_twice_is_harmless_and_never_overwrites_something_else(run_here, tmp_path):
    for _ in range(2):
        assert run_here("prepare", "digits", "--output", "d")[0] == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    assert run_here("prepare", "digits", "--output", "mine")[0] == 3
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.slow
def test_a_run_folder_holds_what_the_documents_say(workplace):
    args = ["train", *TINY, "--log.report", "True", "--name", "run"]
    done = fork_trainer(*args, cwd=workplace)
    assert done.returncode == 0, done.stderr
    run = workplace / "runs" / "run"
    names = {path.name for path in run.iterdir()}
    assert names == {
        *("config.json", "metrics.jsonl", "tblogs", "checkpoints", "result.json", "report.html"),
        *("predictions.csv", "classes.csv", "mistakes", "evidence"),
    }
    assert (workplace / "runs" / "latest").resolve() == run.resolve()
    assert list((run / "tblogs").rglob("events.out.tfevents.*"))

    stored = from_dict(TrainConfig, json.loads((run / "config.json").read_text())["config"])
    assert (stored.name, stored.model.depth, stored.epochs) == ("run", 18, 2)

    final = result(run)
    assert final["ranks"] == 2
    assert final["steps"] == 45
    assert final["examples"] == 360
    assert final["attempts"] == 1
    assert final["training_seconds"] > final["seconds"]["train"] > 0
    assert final["images_per_second"] == pytest.approx(44 * 64 / final["seconds"]["train"])
    assert f"held-out top-1 {final['top1']:.2%}" in done.stdout
    assert done.stdout.rstrip().endswith("are in runs/run")

    lines = metrics(run, "train")
    assert [line["step"] for line in lines] == [5, 10, 15, 20, 25, 30, 35, 40, 45]
    for line in lines:
        # The closed form, written anew: 2 epochs of 1437 / 64 steps, half an epoch of warm-up.
        from math import cos, pi

        warmup, total, peak = 0.5 * 1437 / 64, 45, 0.4 * 64 / 256
        update = line["step"]
        rate = (
            peak * update / warmup
            if update < warmup
            else peak / 2 * (1 + cos(pi * (update - warmup) / (total + 1 - warmup)))
        )
        assert line["learning_rate"] == pytest.approx(rate, rel=1e-12)
        assert {"loss", "images_per_second", "data_wait_percent", "gradient_norm"} <= line.keys()
    for event in ("evaluation", "checkpoint"):
        assert [line["step"] for line in metrics(run, event)] == [23, 45]
    assert metrics(run, "checkpoint")[-1]["seconds"] == final["seconds"]
    assert metrics(run, "start")[0]["environment"]["cores"] >= 1

    with (run / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["index"]) for row in rows] == list(range(360))
    wrong = [row for row in rows if row["label"] != row["predicted"]]
    assert (len(rows) - len(wrong)) / len(rows) == final["top1"]
    assert len(list((run / "mistakes").iterdir())) == min(len(wrong), 24)
    assert f"{final['top1']:.2%}" in (run / "report.html").read_text()

    # A step that was not wanted at first, or was cut off by a kill, is made up for.
    export = " ".join(args).replace("--export False", "--export True").split()
    exported = fork_trainer(*export, cwd=workplace)
    assert exported.returncode == 0, exported.stderr
    assert "is finished already" in exported.stdout
    facts = json.loads((run / "export" / "export.json").read_text())
    assert facts["step"] == final["steps"]
    assert "exporting" not in fork_trainer(*export, cwd=workplace).stdout

    evaluated = fork_trainer("evaluate", "--json", "True", cwd=workplace, ranks=1)
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads(evaluated.stdout)["top1"] == final["top1"]


@pytest.mark.slow
def test_the_final_weights_can_be_the_best_even_if_only_they_are_evaluated(workplace):
    args = [*TINY, "--evaluation.every-epochs", "0", "--name", "run"]
    done = fork_trainer("train", *args, cwd=workplace, ranks=1)
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in metrics(workplace / "runs" / "run", "evaluation")] == [90]
    elsewhere = workplace / "elsewhere"
    (workplace / "data" / "digits").rename(elsewhere)
    options = ["--checkpoint", "best", "--data-dir", str(elsewhere)]
    evaluated = fork_trainer("evaluate", *options, cwd=workplace, ranks=1)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "step-0000000090.a1: top-1" in evaluated.stdout


@pytest.mark.slow
def test_synthetic_preset_measures_without_data(tmp_path):
    options = ["--model.image-size", "32", "--max-steps", "6", "--name", "run"]
    done = fork_trainer("train", "--preset", "synthetic", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert result(tmp_path / "runs" / "run")["top1"] is None
    assert "images/s" in done.stdout
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epochs", "top1"),
    # Three epochs show that it learns as it is typed; the promise itself takes all of them.
    [(3, 0.7), pytest.param(PRESETS["digits"].epochs, 0.99, marks=pytest.mark.long)],
)
def test_the_first_run_keeps_its_promise(tmp_path, epochs, top1):
    done = run_trainer("train", "--name", "digits", "--epochs", str(epochs), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    final = result(tmp_path / "runs" / "digits")
    assert (final["ranks"], final["examples"]) == (2, 360)
    assert final["epochs"] == pytest.approx(epochs, abs=0.05)
    assert final["top1"] >= top1
