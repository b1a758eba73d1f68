"""Exports where the run, its data or the place are not as they should be."""

import json
import shutil

import pytest

from common.errors import UserError
from tests.trainer.export.test_exporter import facts
from tests.trainer.support.made_run import STEP, make_run
from tests.trainer.support.scenarios import tiny_config
from tests.trainer.support.small_model import small_model
from trainer.errors import CheckpointError, DataError
from trainer.export import exporter, saved_model
from trainer.export.exporter import export_model, export_run, exported_step
from trainer.export.options import SavedModelOptions
from trainer.model.weights import variables_by_name
from trainer.run_folder import RunFolder


@pytest.fixture
def small(monkeypatch):
    """Runs of small models, which are written in no time."""
    monkeypatch.setattr("trainer.model.weights.build_model", small_model)


@pytest.fixture
def run(digits_folder, tmp_path, small):
    """The folder of a run without an export."""
    return make_run(tmp_path / "run", tiny_config(str(digits_folder), name="run"))[0]


@pytest.fixture(scope="module")
def complete(digits_folder, tmp_path_factory):
    """The folder of a run with an export of two classes an image."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainer.model.weights.build_model", small_model)
        folder = tmp_path_factory.mktemp("complete") / "run"
        make_run(folder, tiny_config(str(digits_folder), name="run"))
        export_run(SavedModelOptions(run=str(folder), top=2))
        return folder


@pytest.fixture
def exported(complete, tmp_path, small):
    """A copy of that run."""
    return RunFolder(shutil.copytree(complete, tmp_path / "run"))


def test_the_data_set_need_not_be_there(digits_folder, tmp_path, small):
    shutil.copytree(digits_folder, tmp_path / "data")
    folder, _, _ = make_run(tmp_path / "run", tiny_config(str(tmp_path / "data"), name="run"))
    shutil.rmtree(tmp_path / "data")
    path = export_run(SavedModelOptions(run=str(folder.path), top=2))
    assert facts(path)["class_names"] == [str(digit) for digit in range(10)]
    assert facts(path)["top"] == 2


def test_a_run_that_does_not_keep_its_classes_takes_them_from_its_data_set(
    digits_folder, tmp_path, small
):
    shutil.copytree(digits_folder, tmp_path / "data")
    folder, record, _ = make_run(tmp_path / "run", tiny_config(str(tmp_path / "data"), name="run"))
    stored = json.loads((folder.path / "config.json").read_text())
    del stored["meaning"]
    (folder.path / "config.json").write_text(json.dumps(stored))
    path = export_run(SavedModelOptions(run=str(folder.path)))
    assert facts(path)["mean"] == list(record.normalization.mean)

    (folder.path / "config.json").write_text(json.dumps({**stored, "data_version": "other"}))
    with pytest.raises(DataError, match="was trained on other; prepare that version again"):
        export_run(SavedModelOptions(run=str(folder.path)))
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(DataError, match=r"without class names.*no such data folder"):
        export_run(SavedModelOptions(run=str(folder.path)))


def test_a_run_without_a_checkpoint_that_fits_is_refused(run):
    with pytest.raises(CheckpointError, match="has no valid, evaluated checkpoint"):
        export_run(SavedModelOptions(run=str(run.path), checkpoint="best"))
    shutil.rmtree(run.checkpoints.folder)
    with pytest.raises(CheckpointError, match="has no valid checkpoint;"):
        export_run(SavedModelOptions(run=str(run.path)))


def test_a_folder_with_something_else_is_refused_and_stays(run, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="mine: exists but is not an export"):
        export_run(SavedModelOptions(run=str(run.path), output=str(tmp_path / "mine")))
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the disk is full")])
def test_an_interrupted_export_leaves_the_one_before_and_nothing_else(exported, monkeypatch, error):
    names = {path.name for path in exported.path.iterdir()}

    def save(module, place, signatures):
        (exported.path / ".export.partial" / "saved_model").mkdir()
        raise error

    monkeypatch.setattr(saved_model.tf.saved_model, "save", save)
    with pytest.raises((KeyboardInterrupt, UserError)):
        export_run(SavedModelOptions(run=str(exported.path)))
    assert facts(exported.path / "export")["top"] == 2
    assert {path.name for path in exported.path.iterdir()} == names


def test_what_a_killed_export_left_behind_goes_with_the_next(run):
    partial = run.path / ".export.partial" / "saved_model"
    partial.mkdir(parents=True)
    (partial / "saved_model.pb").write_text("half")
    export_run(SavedModelOptions(run=str(run.path)))
    assert {path.name for path in run.path.iterdir()} == {"config.json", "checkpoints", "export"}
    assert {path.name for path in (run.path / "export").iterdir()} == {"saved_model", "export.json"}


def test_an_export_that_a_kill_left_aside_stays_if_the_next_one_fails(exported, monkeypatch):
    # As if killed between the two renames.
    (exported.path / "export").rename(exported.path / ".export.old")

    def fail(module, place, signatures):
        raise OSError("the disk is full")

    monkeypatch.setattr(saved_model.tf.saved_model, "save", fail)
    with pytest.raises(UserError, match="the disk is full"):
        export_run(SavedModelOptions(run=str(exported.path)))
    assert facts(exported.path / "export")["top"] == 2
    assert exported_step(exported.path) == STEP


def test_the_step_of_an_export_is_none_where_there_is_no_complete_one(tmp_path):
    assert exported_step(tmp_path) is None
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "export.json").write_text("{")
    assert exported_step(tmp_path) is None


def test_an_older_export_stays_if_the_new_one_cannot_take_its_place(exported, monkeypatch):
    rename = exporter.Path.rename

    def refuse(path, target):
        if path.name == ".export.partial":
            raise OSError("no")
        return rename(path, target)

    monkeypatch.setattr(exporter.Path, "rename", refuse)
    with pytest.raises(UserError, match="the export cannot be written: no"):
        export_run(SavedModelOptions(run=str(exported.path)))
    assert facts(exported.path / "export")["top"] == 2
    assert {path.name for path in exported.path.iterdir()} == {
        "config.json",
        "checkpoints",
        "export",
    }


def test_a_complete_run_that_cannot_be_exported_says_how_to_try_again(
    digits_folder, tmp_path, small
):
    config = tiny_config(str(digits_folder), name="run")
    folder, record, model = make_run(tmp_path / "run", config)
    (folder.path / "export").write_text("in the way")
    with pytest.raises(UserError) as caught:
        export_model(folder, record, variables_by_name(model), STEP, None)
    assert "the run is complete and its result.json is written" in str(caught.value)
    assert f"ml-trainer export --run {folder.path}" in str(caught.value)
