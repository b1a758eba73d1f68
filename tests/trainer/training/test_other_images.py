"""Evaluations on images that a run does not hold out: a split for tests, or another data set."""

import json
import re
from dataclasses import replace

import pytest

from tests.trainer.support.data_sets.hospital import write_hospital
from tests.trainer.support.data_sets.image_folders import content, prepare, records
from tests.trainer.support.made_run import make_run
from tests.trainer.support.reader import Reader
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.cli import main
from trainer.data.data_set import load_data_set
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.extras.calibration.fit import calibrate
from trainer.extras.calibration.options import CalibrateOptions
from trainer.report.evaluated import evaluation_name
from trainer.report.run_data import read_run
from trainer.tasks.classification.files import THUMBNAILS
from trainer.training.evaluator import evaluate_run
from trainer.training.options import EvaluateOptions

GROUPS = "(Pat_[0-9]+)"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    # TensorFlow's threads are set once in a process.
    monkeypatch.setattr("trainer.training.evaluator.set_up_device", lambda *_: None)


@pytest.fixture
def run(tmp_path):
    """A run on images of patients with a third split."""
    source = tmp_path / "hospital"
    write_hospital(source, folders=True)
    prepare(source, tmp_path / "set", group_by=GROUPS, test=0.3, max_rejected="1")
    config = tiny_config(str(tmp_path / "set"), name="run", batch_size=8)
    return make_run(tmp_path / "runs" / "run", config)[0]


def options(run, **more):
    return EvaluateOptions(run=str(run.path), **more)


def test_the_split_for_tests_is_evaluated_with_a_report_and_nothing_else_reads_it(run, tmp_path):
    held_out = evaluate_run(options(run))
    assert not (run.path / "evaluations").exists()
    before = content(run.path)
    test = evaluate_run(options(run, split="test"))
    of_split = {r.filename for r in records(tmp_path / "set", "test")}
    assert test.examples == len(of_split) != held_out.examples
    folder = run.path / "evaluations" / "test"
    found = read_run(folder)
    assert found.state == "finished"
    assert found.summary.metrics["top1"] == test.metrics["top1"]
    assert found.summary.examples == test.examples
    page = Reader((folder / "report.html").read_text()).text
    assert "run on test" in page
    assert f"% of {test.examples} test images are right" in page
    assert not re.search("held-out|Images are missing|No attempt|Nothing was timed|images/s", page)
    wrong = min(round((1 - test.metrics["top1"]) * test.examples), THUMBNAILS)
    assert len(list((folder / "mistakes").iterdir())) == wrong > 0
    assert len((folder / "predictions.csv").read_text().splitlines()) == test.examples + 1
    assert {k: v for k, v in content(run.path).items() if "evaluations" not in k} == before
    # Evaluations, the choice of the best weights and calibration read validation alone.
    config = run.read().config
    data = RankData(config, load_data_set(config), Alone(), 1)
    assert not of_split & set(data.validation_names())


def test_images_of_another_hospital_are_evaluated_as_those_of_the_run(run, tmp_path, capsys):
    other = tmp_path / "elsewhere"
    write_hospital(other, patients=20, folders=True)
    prepare(other, tmp_path / "other", max_rejected="1")
    with pytest.raises(DataError, match=r"has version .* but .* was trained on"):
        calibrate(CalibrateOptions(run=str(run.path), data_dir=str(tmp_path / "other")))
    capsys.readouterr()
    command = ["evaluate", "--run", str(run.path), "--data-dir", str(tmp_path / "other")]
    assert main([*command, "--split", "all", "--json", "True"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert result["examples"] == sum(
        len(records(tmp_path / "other", split)) for split in ("train", "validation")
    )
    (folder,) = (p for p in (run.path / "evaluations").iterdir() if p.name.startswith("other-"))
    assert f"report: {folder / 'report.html'}" in printed.err
    stored = json.loads((folder / "config.json").read_text())
    assert stored["config"]["data"]["dir"] == str(tmp_path / "other")
    # The statistics of the run's pixels, not those of the other images.
    assert stored["meaning"]["mean"] == list(run.read().normalization.mean)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("classes", "has the classes Normal, Tumor, but .* was trained on Normal, Pneumonie, Tum"),
        ("levels", r"the values 0 to 255 of its images .*prepare it again with --levels 0:4095"),
        ("no split", "has no split 'test', only train, validation; prepare it with --test"),
        ("own", "most of all its images were trained on; evaluate the split validation or test"),
    ],
)
def test_images_that_would_mean_something_else_are_refused(run, tmp_path, case, said):
    other, more = tmp_path / "elsewhere", {"data_dir": str(tmp_path / "other"), "split": "test"}
    write_hospital(other, folders=True)
    if case == "own":
        more = {"split": "all"}
    elif case == "classes":
        for path in (other / "Pneumonie").rglob("*"):
            if path.is_file():
                path.unlink()
        for path in sorted((other / "Pneumonie").rglob("*"), reverse=True):
            path.rmdir()
        (other / "Pneumonie").rmdir()
    if case != "own":
        levels = {"levels": "0:255"} if case == "levels" else {}
        prepare(other, tmp_path / "other", max_rejected="1", **levels)
    with pytest.raises(DataError, match=said):
        evaluate_run(options(run, **more))


def test_an_evaluation_is_written_whatever_the_name_of_the_folder(run, tmp_path):
    names = ("Klinik München", "Klinik Mänchen", ".versteckt", "東京", "x" * 120)
    parts = [evaluation_name(name, "0123456789abcdef", "validation") for name in names]
    assert len({part.lower() for part in parts}) == len(names)
    for part in parts:
        assert replace(run.read().config, name=part)
    assert evaluation_name("other", "0123456789abcdef", "all") == "other-01234567-all"
    other = tmp_path / "Klinik München"
    write_hospital(tmp_path / "elsewhere", patients=20, folders=True)
    prepare(tmp_path / "elsewhere", other, max_rejected="1")
    assert evaluate_run(options(run, data_dir=str(other))).examples
    (folder,) = (run.path / "evaluations").glob("Klinik-M*")
    assert (folder / "report.html").exists()


def test_a_run_without_stored_class_names_is_evaluated_with_those_of_its_data_set(run, tmp_path):
    stored = json.loads((run.path / "config.json").read_text())
    meaning = stored.pop("meaning")
    (run.path / "config.json").write_text(json.dumps(stored))
    assert evaluate_run(options(run)).examples
    assert evaluate_run(options(run, split="test")).examples
    of_test = json.loads((run.path / "evaluations" / "test" / "config.json").read_text())
    assert of_test["meaning"]["classes"] == meaning["classes"]
    assert of_test["meaning"]["mean"] == meaning["mean"]


def test_a_data_set_that_has_moved_is_still_the_runs_own(run, tmp_path):
    moved = (tmp_path / "set").rename(tmp_path / "moved")
    assert evaluate_run(replace(options(run), data_dir=str(moved))).examples
    assert not (run.path / "evaluations").exists()
