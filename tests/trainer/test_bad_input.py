"""Bad input gets one clear error, with its own exit status, and leaves no run behind."""

from dataclasses import replace

import pytest

from tests.trainer.support.command import SMALL, TINY, metrics, result, run_trainer
from tests.trainer.support.data_sets.records import plain_record, write_records
from trainer.data.formats.tfrecord import write_split

ONE_RANK = [*TINY, "--ranks", "1", "--name", "run"]


def write_data(folder, records, **changes):
    validation = [plain_record(number, number % 3) for number in range(11)]
    return write_records(folder, records, validation, "abcd", **changes)


def good_records(count=200):
    return [plain_record(n % 256, n % 3) for n in range(count)]


def refused(tmp_path, *args, status, words):
    """Run and expect one error with these words, no traceback and nothing left behind."""
    done = run_trainer("train", *args, cwd=tmp_path, module=SMALL)
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stderr.count("error:") == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def data(tmp_path):
    write_data(tmp_path / "set", good_records())
    return ["--data.source", "tfrecords", "--data.dir", "set"]


def test_missing_data_folder(tmp_path):
    refused(
        tmp_path,
        *["--data.source", "tfrecords", "--data.dir", "nowhere"],
        status=3,
        words=["nowhere: there is no such data folder"],
    )


def test_folder_without_a_manifest(tmp_path):
    (tmp_path / "empty").mkdir()
    args = ["--data.source", "tfrecords", "--data.dir", "empty"]
    refused(tmp_path, *args, status=3, words=["manifest.json", "python -m trainer prepare"])


def test_manifest_that_does_not_fit_its_shards(tmp_path, data):
    shards = sorted((tmp_path / "set").glob("train-*"))
    shards[0].unlink()
    shards[1].write_bytes(shards[1].read_bytes()[:-1])
    refused(tmp_path, *data, status=3, words=["train-00000", "missing", "train-00001", "bytes"])


@pytest.mark.parametrize("classes", [("a",), ("a", "b", "c")])
def test_a_single_class_is_refused_as_there_is_nothing_to_learn(tmp_path, classes):
    records = [plain_record(n % 256, 0) for n in range(200)]
    write_records(tmp_path / "set", records, records[:20], classes, shards=(1, 1))
    args = ["--data.source", "tfrecords", "--data.dir", "set"]
    words = ["set: all training images are of the class 'a'", "nothing to learn"]
    refused(tmp_path, *args, status=3, words=words)


@pytest.mark.slow
def test_two_classes_of_very_unequal_size_are_trained_by_two_ranks(tmp_path):
    records = [plain_record(n % 256, int(n == 7)) for n in range(65)]
    write_records(tmp_path / "set", records, records[:20], ("many", "one"), shards=(1, 1))
    # One epoch is a little more than a step, and a window is longer than all of it.
    args = [*TINY, "--data.source", "tfrecords", "--data.dir", "set", "--name", "run"]
    args += ["--data.shuffle-window", "512", "--batch-size", "32"]
    done = run_trainer("train", *args, cwd=tmp_path, module=SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    found = result(tmp_path / "runs" / "run")
    assert (found["examples"], found["steps"], found["top5"]) == (20, 3, 1.0)


def test_other_number_of_classes_than_the_data_have(tmp_path, data):
    words = ["--model.classes: 7, but set has 4 classes"]
    refused(tmp_path, *data, "--model.classes", "7", status=2, words=words)


def test_folder_that_is_no_run(tmp_path, data):
    (tmp_path / "elsewhere" / "run").mkdir(parents=True)
    (tmp_path / "elsewhere" / "run" / "precious.txt").write_text("mine")
    args = [*data, "--name", "run", "--runs-dir", "elsewhere"]
    refused(tmp_path, *args, status=4, words=["exists but is not a run folder"])
    assert (tmp_path / "elsewhere" / "run" / "precious.txt").read_text() == "mine"


@pytest.mark.slow
def test_corrupt_image_is_named_with_shard_and_index(tmp_path):
    records = good_records()
    records[100] = replace(records[0], encoded=b"this is not a picture")
    write_data(tmp_path / "set", records)
    args = [*ONE_RANK, "--data.source", "tfrecords", "--data.dir", "set", "--log.every-steps", "1"]
    done = run_trainer("train", *args, cwd=tmp_path, module=SMALL)
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
    args = [*ONE_RANK, "--data.source", "tfrecords", "--data.dir", "set", "--epochs", "1"]
    args += ["--optimizer.warmup-epochs", "0", "--data.on-corrupt", "skip", "--batch-size", "20"]
    done = run_trainer("train", *args, cwd=tmp_path, module=SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped train-00001-of-00003.tfrecord, record 34: cannot be read" in done.stdout
    assert (
        "skipped train-00001-of-00003.tfrecord, record 35: label 99 is not a class" in done.stdout
    )
    lines = metrics(tmp_path / "runs" / "run", "train")
    assert sum(line.get("images_left_out", 0) for line in lines) == 2


@pytest.mark.slow
def test_damaged_shard_is_named(tmp_path):
    write_data(tmp_path / "set", good_records())
    for shard in (tmp_path / "set").glob("train-*"):
        content = bytearray(shard.read_bytes())
        content[30] ^= 0xFF
        shard.write_bytes(content)
    args = [*ONE_RANK, "--data.source", "tfrecords", "--data.dir", "set"]
    refused(tmp_path, *args, status=3, words=["train-0000", "record 0"])


@pytest.mark.slow
def test_class_without_images_and_more_ranks_than_cores_are_warned_of(tmp_path, data):
    import os

    ranks = len(os.sched_getaffinity(0)) + 1
    args = [*TINY, *data, "--ranks", str(ranks), "--batch-size", "8", "--max-steps", "2"]
    done = run_trainer("train", *args, "--name", "run", cwd=tmp_path, module=SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"warning: {ranks} ranks share {ranks - 1} cores" in done.stderr
    assert "warning: no training images for 1 class: d" in done.stderr
    assert result(tmp_path / "runs" / "run")["ranks"] == ranks
