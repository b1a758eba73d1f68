"""Slices of held-out images: which image is in which, their counts, and their page."""

import csv
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from common.errors import ConfigError
from tests.trainer.support.command import TINY
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.made_run import STEP, make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.cli import main
from trainer.data.data_set import load_data_set
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Alone
from trainer.errors import DataError
from trainer.extras.calibration.leaf import CalibrationOptions
from trainer.extras.calibration.record import read_calibration
from trainer.extras.slices.counts import REST, count, read, slicer
from trainer.extras.slices.leaf import SlicesOptions
from trainer.presets import PRESETS, parse_train
from trainer.report.run_data import read_run
from trainer.report.run_page import run_page
from trainer.tasks.classification.files import COLUMNS, write_predictions
from trainer.tasks.classification.task import Classification
from trainer.tasks.classification.trust import bin_of, wilson
from trainer.tasks.task import Predictions
from trainer.tasks.weighted import weighted
from trainer.training.evaluator import Evaluator
from trainer.training.metrics import PhaseTimer
from trainer.training.validation import Validation


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("site([0-9]+)/", "a/site12/x.jpg", "12"),
        ("^[^/]+", "cam3/x.jpg", "cam3"),
        ("site([0-9]+)", "other/x.jpg", REST),
        ("(a)?x", "x.jpg", REST),
    ],
)
def test_a_slice_is_the_first_group_or_all_that_matches(pattern, name, expected):
    assert slicer(SlicesOptions(pattern=pattern))(name) == expected


def test_a_table_gives_the_slice_of_each_name(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text('\ufeffname,age,site\n"a, b.jpg",7,north\nc.jpg,,south\n', encoding="utf-8")
    options = SlicesOptions(table=str(table), column="site")
    of_site = slicer(options)
    assert [of_site(name) for name in ("a, b.jpg", "c.jpg", "d.jpg")] == ["north", "south", REST]
    assert slicer(replace(options, column="age"))("c.jpg") == REST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name,age\na,1\n", "no column 'site'"),
        ("scan,site\na,1\n", "no column 'name' with the names of records; its columns are scan"),
        ("name,site\na,1\na,2\n", "line 3: 'a' has a second value"),
        (None, "cannot be read"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(tmp_path, text, expected):
    table = tmp_path / "t.csv"
    if text:
        table.write_text(text)
    with pytest.raises(DataError, match=expected):
        slicer(SlicesOptions(table=str(table), column="site"))


def test_the_columns_that_a_data_set_keeps_need_no_table(tmp_path):
    options = SlicesOptions(column="site")
    with pytest.raises(DataError, match=r"columns\.csv: does not exist.*--table"):
        slicer(options, tmp_path)
    text = "Datei;site\r\nb.png;Köln\r\nc.png;Bonn\r\n"
    (tmp_path / "excel.csv").write_bytes(text.encode("cp1252"))
    of_table = slicer(replace(options, table=str(tmp_path / "excel.csv")))
    assert [of_table(name) for name in ("a/b.png", "c.png", "d.png")] == ["Köln", "Bonn", REST]
    (tmp_path / "columns.csv").write_text("name,site\na/b.png,north\n")
    of_kept = slicer(options, tmp_path)
    assert [of_kept(name) for name in ("a/b.png", "a/c.png")] == ["north", REST]


@pytest.mark.parametrize("title", ["file", "scan"])
def test_the_column_of_names_is_the_one_with_most_names_of_the_data_set(tmp_path, title):
    table = tmp_path / "t.csv"
    table.write_text(f"name,{title},site\nfox,a/1.png,north\nfox,a/2.png,south\n")
    options = SlicesOptions(table=str(table), column="site")
    names = ["a/1.png", "a/2.png", "a/3.png"]
    assert [*map(slicer(options, names=names), names)] == ["north", "south", REST]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--slices.pattern", "("], "--slices.pattern: is not a regular expression"),
        (["--slices.table", "x"], "--slices.table: add --slices.column"),
        (["--slices.pattern", "a", "--slices.table", "x", "--slices.column", "y"], "not of both"),
        *(
            (["--preset", name, "--slices.pattern", "a"], "are counted of one class per image")
            for name, preset in PRESETS.items()
            if preset.task != "classification"
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(words, expected):
    with pytest.raises(ConfigError, match=expected):
        parse_train(words)


def test_each_slice_counts_its_own_images_and_the_least_accurate_comes_first():
    noise = np.random.default_rng(0)
    slices = noise.choice(["a", "b", "c"], 300).tolist()
    right = (noise.uniform(size=300) < 0.7).tolist()
    rows = count(slices, zip(right, noise.uniform(size=300).tolist(), strict=True))
    assert sum(row.images for row in rows) == 300
    for row in rows:
        own = [hit for hit, name in zip(right, slices, strict=True) if name == row.name]
        assert (row.images, row.right) == (len(own), sum(own))
        assert row.interval == wilson(sum(own), len(own))
    assert [row.accuracy for row in rows] == sorted(row.accuracy for row in rows)


@pytest.fixture
def run(tmp_path, digits_folder, monkeypatch):
    """A finished run that is wrong on every image whose name ends in 3."""
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)
    folder, _, _ = make_run(tmp_path / "run", tiny_config(str(digits_folder), name="run"))
    names = names_of(folder)
    label = np.arange(len(names)) % 10
    wrong = np.array([name.endswith("3.png") for name in names])
    predicted = np.where(wrong, (label + 1) % 10, label)
    probability = np.full(len(names), 0.75, np.float32)
    columns = dict(zip(COLUMNS, (label, predicted, probability, probability), strict=True))
    predictions = Predictions(np.arange(len(names)), columns)
    facts = write_predictions(folder.path, predictions, [str(n) for n in range(10)], None)
    folder.metrics.append("predictions", STEP, facts)
    return folder


def names_of(folder):
    config = folder.read().config
    return list(RankData(config, load_data_set(config), Alone(), 1).validation_names())


def test_the_command_counts_a_finished_run_and_its_page_shows_it(run, capsys):
    (run.path / "report.html").write_text("old")
    assert main(["slices", "--run", str(run.path), "--pattern", "([0-9]).png"]) == 0
    assert "0.00%" in capsys.readouterr().out.splitlines()[0]
    rows = read(run.path)
    assert rows[0].name == "3"
    assert (rows[0].right, sum(row.images for row in rows)) == (0, 360)
    assert all(row.right == row.images for row in rows[1:])
    page = (run.path / "report.html").read_text()
    assert "1 slice of 10 is less accurate than the whole by more than chance explains" in page
    assert "3 (low)" in page


def test_a_table_slices_a_finished_run(run, tmp_path):
    names = names_of(run)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "half"])
        rows.writerows((name, "ab"[place % 2]) for place, name in enumerate(names[:300]))
    words = ["--table", str(tmp_path / "t.csv"), "--column", "half"]
    assert main(["slices", "--run", str(run.path), *words]) == 0
    assert {row.name: row.images for row in read(run.path)} == {"a": 150, "b": 150, REST: 60}


@pytest.mark.parametrize("option", ["table", "pattern"])
def test_slices_that_no_image_is_in_are_refused_and_the_file_stays(run, tmp_path, capsys, option):
    (run.path / "slices.csv").write_text("old")
    (tmp_path / "t.csv").write_text("file,site\n/data/x.png,a\n")
    words = {
        "table": ["--table", str(tmp_path / "t.csv"), "--column", "site"],
        "pattern": ["--pattern", "site([0-9]+)/"],
    }[option]
    assert main(["slices", "--run", str(run.path), *words]) == 3
    said = capsys.readouterr().err
    assert f"none of 360 held-out images, such as {names_of(run)[0]}" in said
    assert (run.path / "slices.csv").read_text() == "old"


def test_without_options_or_predictions_the_command_says_so(run, capsys):
    assert main(["slices", "--run", str(run.path)]) == 2
    assert "say what the slices are" in capsys.readouterr().err
    (run.path / "predictions.csv").unlink()
    assert main(["slices", "--run", str(run.path), "--pattern", "x"]) == 3
    assert "has no predictions" in capsys.readouterr().err


def test_a_damaged_file_is_a_sentence_on_the_page(run):
    assert "Slices</h2>" not in run_page(read_run(run.path))
    (run.path / "slices.csv").write_text("slice,images\na,b\n")
    assert "slices.csv cannot be read" in run_page(read_run(run.path))


def test_the_final_evaluation_calibrates_and_slices_if_that_is_asked_for(run, capsys):
    config = run.read().config
    config = replace(
        config,
        calibration=CalibrationOptions(temperature=True),
        slices=SlicesOptions(pattern="([0-9]).png"),
    )
    data_set = load_data_set(config)
    data, model = RankData(config, data_set, Alone(), 1), small_model(config.model, 10)
    task = weighted(Classification(10), config, data_set)
    evaluator = Evaluator(task, model, Alone(), data_set.normalization, xla=False)
    setup = SimpleNamespace(config=config, folder=run, data_set=data_set)
    reporter = MagicMock()
    validation = Validation(
        task, evaluator, data, setup, Alone(), reporter, PhaseTimer(), lambda: None, shown=False
    )
    validation.evaluate(STEP)
    validation.write_predictions(STEP)
    with (run.path / "predictions.csv").open(newline="") as file:
        predictions = list(csv.DictReader(file))
    rows = read(run.path)
    assert sum(row.images for row in rows) == len(predictions) == 360
    assert sum(row.right for row in rows) == sum(p["label"] == p["predicted"] for p in predictions)
    found = read_calibration(run.path)
    assert found.step == STEP
    bins = Counter(bin_of(float(row["probability"])) for row in predictions)
    assert {number: one.count for number, one in found.before.bins.items()} == bins
    said = [call.args[0] for call in reporter.console.say.call_args_list]
    setup.config = replace(config, slices=SlicesOptions(pattern="site([0-9]+)/"))
    validation.write_predictions(STEP)
    assert "finds none of 360 held-out images" in capsys.readouterr().err
    assert read(run.path) == rows
    assert any("10 slices of held-out images" in text for text in said)

    config = replace(config, slices=SlicesOptions(table="missing.csv", column="x"))
    setup.config = config
    validation.write_predictions(STEP)
    assert "missing.csv: cannot be read" in capsys.readouterr().err


@pytest.mark.slow
def test_two_ranks_calibrate_and_slice_at_the_end_of_a_run(workplace):
    options = ["--calibration.temperature", "True", "--slices.pattern", "([0-9]).png"]
    done = fork_trainer("train", *TINY, "--name", "run", *options, cwd=workplace, ranks=2)
    assert done.returncode == 0, done.stderr
    run = workplace / "runs" / "run"
    rows = read(run)
    assert sum(row.images for row in rows) == 360
    with (run / "predictions.csv").open(newline="") as file:
        predictions = list(csv.DictReader(file))
    assert sum(row.right for row in rows) == sum(p["label"] == p["predicted"] for p in predictions)
    page = (run / "report.html").read_text() if (run / "report.html").exists() else ""
    assert not page or ("Slices" in page and "Calibration" in page)
    assert "calibration error of held-out images" in done.stdout or "no temperature" in done.stdout
