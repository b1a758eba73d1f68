"""Runs are compared from a few small files in storage, and their page is the trainer's."""

import json
from dataclasses import replace

import pytest

from common import fields
from jobs.cli import main
from jobs.commands.runs import compare
from jobs.leaf import Leaf
from tests.jobs.support.runs import declare_job, put
from tests.jobs.support.tiny import status, wait_for
from trainer.presets import PRESETS

RESULT = {"top1": 0.9, "top5": 1.0, "steps": 40, "images_per_second": 1000.0, "ranks": 2,
          "training_seconds": 75.0, "examples": 360, "attempts": 1}  # fmt: skip


def store(live, run, *, rate=0.1, result=None, top1=0.5, data="1"):
    """Put the files of a run into storage, and submit a job for it that has ended."""
    digits = PRESETS["digits"]
    config = replace(digits, name=run, optimizer=replace(digits.optimizer, learning_rate=rate))
    stored = {
        "config": fields.to_dict(config),
        "ranks": 2,
        "global_batch": 64,
        "data_version": data,
    }
    lines = [
        {"event": "start", "step": 0, "time": 1.0, "ranks": 2, "environment": {}},
        {"event": "train", "step": 20, "epoch": 1.0, "loss": 1.5, "images_per_second": 900.0},
        {"event": "evaluation", "step": 20, "epoch": 1.0, "top1": top1, "top5": 0.8},
    ]
    metrics = "".join(json.dumps(line) + "\n" for line in lines)
    if result:
        metrics += json.dumps({"event": "finish", "step": 40, **result}) + "\n"
    files = {"config.json": json.dumps(stored), "metrics.jsonl": metrics + '{"event": "tr'}
    if result:
        files["result.json"] = json.dumps(result)
    put(live, {f"runs/{run}/{run}/{name}": text.encode() for name, text in files.items()})
    declare_job(live, f"{run}-r1", {"run": run, "kind": "train"}, "sleep 0.2")
    wait_for(lambda: status(live, f"{live.workspace}/jobs/{run}-r1") == "Completed")


@pytest.fixture
def two(live, outputs):
    store(live, "gentle", rate=0.1, result=RESULT)
    store(live, "steep", rate=0.2)


@pytest.mark.usefixtures("two")
def test_runs_are_compared_by_options_results_time_and_cost(tmp_path, capsys):
    page = tmp_path / "new" / "compare.html"
    assert main(["compare", "gentle", "steep-r1", "gentle", "--page", str(page)]) == 0
    said = capsys.readouterr().out
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in said.splitlines() if line}
    assert rows["gentle"].startswith("Completed 90.00% 100.00% 40 1,000.0 75.0 s 1 ")
    assert rows["steep"].startswith("Completed (so far) 50.00% 80.00% 20 ? ? 1 ")
    assert rows["gentle"].endswith(" USD")
    assert rows["optimizer.learning_rate"] == "0.1 0.2"
    assert "name" not in rows
    html = page.read_text()
    assert "gentle, steep · comparison of runs" in html
    assert "optimizer.learning_rate" in html
    assert " USD" in html
    assert "<span>cost</span>" in html


def test_doubts_baselines_and_different_data_sets_are_told(live, outputs, capsys, monkeypatch):
    monkeypatch.setattr(compare, "_TRAINER", compare.REPOSITORY / "none")
    doubt = "Never predicted, 1 of 10 classes: 3."
    store(live, "doubted", result={**RESULT, "baseline": {"top1": 0.7}, "warnings": [doubt]})
    store(live, "elsewhere", result=RESULT, data="2")
    assert main(["compare", "doubted", "elsewhere"]) == 0
    said = capsys.readouterr().out
    assert "90.00% (70.00%)" in said
    assert f"doubted: {doubt}" in said
    assert "different data sets, so their held-out images differ: doubted 1, elsewhere 2" in said


@pytest.mark.usefixtures("two")
def test_without_the_trainers_environment_the_table_is_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare, "_TRAINER", tmp_path / "none")
    page = tmp_path / "compare.html"
    assert main(["compare", "gentle", "steep", "--page", str(page), "--json"]) == 0
    said = capsys.readouterr()
    document = json.loads(said.out)
    assert [run["run"] for run in document["runs"]] == ["gentle", "steep"]
    assert document["options"] == {"optimizer.learning_rate": {"gentle": "0.1", "steep": "0.2"}}
    assert document["page"] is None
    assert "no page is written" in said.err
    assert "`make setup` installs it" in said.err
    assert not page.exists()


def test_one_run_is_shown_with_what_a_leaf_knows_of_it(
    live, outputs, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(compare, "_TRAINER", tmp_path / "none")
    monkeypatch.setattr(compare, "LEAVES", [Leaf(about_run=f"{__name__}:about")])
    store(live, "single", result=RESULT)
    assert main(["compare", "single"]) == 0
    assert "single: 40 steps in dev" in capsys.readouterr().out


def about(run, outputs):
    return f"{run.key}: {run.result['steps']} steps in {outputs.stack}"


def test_runs_without_files_are_named(live, outputs, capsys):
    assert main(["compare", "no-run", "no-other"]) == 1
    assert "error: no-run, no-other: no files in container" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([], "RUN...: is missing"),
        (["one", "a/b"], "'a/b' must be at most 100 letters"),
    ],
)
def test_names_that_are_no_runs_are_refused_before_a_request(outputs, capsys, names, why):
    assert main(["compare", *names]) == 2
    assert why in capsys.readouterr().err
