"""Bad input gets one clear error, with its own exit status, and leaves no run behind."""

import json
import os
from dataclasses import replace

import pytest

from tests.trainer.support.command import TINY, metrics, result
from tests.trainer.support.data_sets.records import plain_record, write_records
from tests.trainer.support.forked import fork_trainer
from trainer import cli
from trainer.data.formats.tfrecord import write_split
from trainer.presets import parse_train
from trainer.training.setup import set_up, warn

ALONE = [*TINY, "--name", "run", "--data.source", "tfrecords", "--data.dir", "set"]


def write_data(folder, records, **changes):
    validation = [plain_record(number, number % 3) for number in range(11)]
    return write_records(folder, records, validation, "abcd", **changes)


def good_records(count=200):
    return [plain_record(n % 256, n % 3) for n in range(count)]


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Expect one error with these words before any rank is started, and nothing left behind."""
    monkeypatch.chdir(tmp_path)

    def check(*args, status, words):
        assert cli.main(["train", *args]) == status
        told = capsys.readouterr().err
        assert told.count("error:") == 1, told
        assert [word for word in words if word not in told] == []
        assert not (tmp_path / "runs").exists()

    return check


@pytest.fixture
def data(tmp_path):
    write_data(tmp_path / "set", good_records())
    return ["--data.source", "tfrecords", "--data.dir", "set"]


def test_missing_data_folder(refused):
    args = ["--data.source", "tfrecords", "--data.dir", "nowhere"]
    refused(*args, status=3, words=["nowhere: there is no such data folder"])


def test_folder_without_a_manifest(tmp_path, refused):
    (tmp_path / "empty").mkdir()
    args = ["--data.source", "tfrecords", "--data.dir", "empty"]
    refused(*args, status=3, words=["manifest.json", "ml-trainer prepare"])


def test_images_of_ones_own_given_to_a_preset_of_embedded_data(tmp_path, refused):
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    words = ["photos: has no manifest.json", "prepare folder --input photos", "--preset images"]
    refused("--data.dir", "photos", status=3, words=words)


def test_manifest_that_does_not_fit_its_shards(tmp_path, data, refused):
    shards = sorted((tmp_path / "set").glob("train-*"))
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:-1])
    refused(*data, status=3, words=["train-00000", "missing", "train-00001", "bytes"])


@pytest.mark.parametrize("classes", [("a",), ("a", "b", "c")])
def test_a_single_class_is_refused_as_there_is_nothing_to_learn(tmp_path, classes, refused):
    records = [plain_record(n % 256, 0) for n in range(200)]
    write_records(tmp_path / "set", records, records[:20], classes, shards=(1, 1))
    args = ["--data.source", "tfrecords", "--data.dir", "set"]
    words = ["set: all training images are of the class 'a'", "nothing to learn"]
    refused(*args, status=3, words=words)


@pytest.mark.slow
def test_two_classes_of_very_unequal_size_are_trained_by_two_ranks(tmp_path):
    records = [plain_record(n % 256, int(n == 7)) for n in range(65)]
    write_records(tmp_path / "set", records, records[:20], ("many", "one"), shards=(1, 1))
    # One epoch is a little more than a step, and a window is longer than all of it.
    args = [*ALONE, "--data.shuffle-window", "512", "--batch-size", "32"]
    done = fork_trainer("train", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = result(tmp_path / "runs" / "run")
    assert (found["examples"], found["steps"]) == (20, 3)
    # Five guesses of two classes say nothing, and the larger class is 95 % of the images.
    assert "top5" not in found
    assert found["baseline"] == {"top1": 0.95, "balanced_accuracy": 0.5}
    assert f"warning: {found['warnings'][0]}" in done.stdout


@pytest.mark.slow
def test_a_class_whose_name_is_not_utf_8_is_trained_and_exported(tmp_path):
    records = [plain_record(n % 256, n % 2) for n in range(65)]
    write_records(tmp_path / "set", records, records[:20], ("caf\udce9", "tea"), shards=(1, 1))
    args = [*ALONE, "--export", "True", "--log.report", "True"]
    done = fork_trainer("train", *args, cwd=tmp_path, ranks=1)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs" / "run"
    facts = json.loads((run / "export" / "export.json").read_text(encoding="utf-8"))
    assert facts["class_names"] == [r"caf\udce9", "tea"]
    assert r"caf\udce9" in (run / "predictions.csv").read_text(encoding="utf-8")
    assert r"caf\udce9" in (run / "report.html").read_text(encoding="utf-8")


def test_other_number_of_classes_than_the_data_have(data, refused):
    words = ["--model.classes: 7, but set has 4 classes"]
    refused(*data, "--model.classes", "7", status=2, words=words)


def test_folder_of_runs_that_is_a_file(tmp_path, data, refused):
    (tmp_path / "taken").write_text("mine")
    refused(*data, "--runs-dir", "taken", status=2, words=["--runs-dir:", "taken is not a folder"])


def test_folder_that_is_no_run(tmp_path, data, refused):
    (tmp_path / "elsewhere" / "run").mkdir(parents=True)
    (tmp_path / "elsewhere" / "run" / "precious.txt").write_text("mine")
    args = [*data, "--name", "run", "--runs-dir", "elsewhere"]
    refused(*args, status=4, words=["exists but is not a run folder"])
    assert (tmp_path / "elsewhere" / "run" / "precious.txt").read_text() == "mine"


@pytest.mark.slow
def test_corrupt_image_is_named_with_shard_and_index(tmp_path):
    records = good_records()
    records[100] = replace(records[0], encoded=b"this is not a picture")
    write_data(tmp_path / "set", records)
    done = fork_trainer("train", *ALONE, cwd=tmp_path, ranks=1)
    assert done.returncode == 3, done.stdout + done.stderr
    where = "train-00001-of-00003.tfrecord, record 34"
    assert f"{where}: cannot be read as an image" in done.stderr


@pytest.mark.slow
def test_corrupt_images_are_skipped_named_and_counted_if_asked_for(tmp_path):
    records = good_records()
    records[100] = replace(records[0], encoded=b"this is not a picture")
    records[101] = replace(records[0], label=99, text="99")
    # The manifest describes the same images with labels that it knows.
    known = [replace(record, label=min(record.label, 3)) for record in records]
    manifest = write_data(tmp_path / "set", known)
    shards = write_split(tmp_path / "set", "train", records, 3, 100).shards
    train = replace(manifest.splits["train"], shards=shards)
    replace(manifest, splits={**manifest.splits, "train": train}).save(tmp_path / "set")
    args = [*ALONE, "--data.on-corrupt", "skip", "--batch-size", "20", "--epochs", "1"]
    done = fork_trainer("train", *args, cwd=tmp_path, ranks=1)
    assert done.returncode == 0, done.stderr
    shard = "train-00001-of-00003.tfrecord"
    assert f"skipped {shard}, record 34: cannot be read" in done.stdout
    assert f"skipped {shard}, record 35: label 99 is not a class" in done.stdout
    lines = metrics(tmp_path / "runs" / "run", "train")
    assert sum(line.get("images_left_out", 0) for line in lines) == 2


@pytest.mark.slow
def test_damaged_shard_is_named(tmp_path):
    write_data(tmp_path / "set", good_records())
    for shard in (tmp_path / "set").glob("train-*"):
        content = bytearray(shard.read_bytes())
        content[30] ^= 0xFF
        shard.write_bytes(content)
    done = fork_trainer("train", *ALONE, cwd=tmp_path, ranks=1)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "train-0000" in done.stderr
    assert "record 0" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_class_without_images_and_more_ranks_than_cores_are_warned_of(
    data, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    ranks = len(os.sched_getaffinity(0)) + 1
    warn(set_up(parse_train([*data, "--ranks", f"{ranks}"]), ranks, "run"), ranks)
    told = capsys.readouterr().err
    assert f"warning: {ranks} ranks share {ranks - 1} cores" in told
    assert "warning: no training images for 1 class: d" in told
