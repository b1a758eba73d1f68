"""Data sets that Spark's tasks write, compared with those of a pool of processes."""

import os
import signal
from pathlib import Path

import pytest

from common.errors import UserError
from tests.trainer.support.data_sets.image_folders import content, picture, write_images
from tests.trainer.support.data_sets.image_folders import prepare as prepare_by_pool
from tests.trainer.support.data_sets.imagenet_files import tar
from trainer import cli
from trainer.data.manifest import load_manifest
from trainer.data.prepare import shards
from trainer.data.prepare.folder import prepare_folder
from trainer.data.prepare.options import PrepareFolderOptions
from trainer.errors import DataError
from trainer.extras.spark.preparation import on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def images(tmp_path):
    """Images of some megabytes, so that they fill several shards; one file is not an image."""
    folder = write_images(tmp_path / "in", {"cat": 60, "dog": 40}, side=224)
    (folder / "cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    return folder


def options(images, output, **more):
    more = {"shard_mb": 1, "max_rejected": "2", **more}
    return PrepareFolderOptions(input=str(images), output=str(output), **more)


def test_the_files_are_those_of_the_pool(spark, images, tmp_path):
    prepare_by_pool(images, tmp_path / "pool", shard_mb=1, max_rejected="2")
    manifest = prepare_folder(options(images, tmp_path / "out"), "prepare", on_spark(spark))
    assert len(manifest.splits["train"].shards) > 2
    assert content(tmp_path / "out") == content(tmp_path / "pool")


class DiesOnce:
    """Writes a shard; the first worker that is called is killed while it does."""

    def __init__(self, mark):
        self._mark = mark

    def __call__(self, files, advance):
        if not Path(self._mark).exists():
            Path(self._mark).touch()

            def advance(_):
                os.kill(os.getpid(), signal.SIGKILL)

        return shards.write_shard(files, advance)


def test_with_a_killed_worker_the_files_are_the_same(spark, images, tmp_path, monkeypatch):
    prepare_by_pool(images, tmp_path / "pool", shard_mb=1, max_rejected="2")
    monkeypatch.setattr("trainer.data.prepare.job.write_shard", DiesOnce(str(tmp_path / "mark")))
    prepare_folder(options(images, tmp_path / "out"), "prepare", on_spark(spark))
    assert (tmp_path / "mark").exists()
    assert content(tmp_path / "out") == content(tmp_path / "pool")


def test_too_many_rejected_files_end_it(spark, images, tmp_path):
    with pytest.raises(DataError, match="max-rejected"):
        prepare_folder(options(images, tmp_path / "out", max_rejected="0"), "c", on_spark(spark))


def fail(files, advance):
    raise DataError(f"{files.shard}: cannot be read; buy a new disk")


def test_an_error_that_explains_itself_arrives_as_it_is(spark, images, tmp_path, monkeypatch):
    monkeypatch.setattr("trainer.data.prepare.job.write_shard", fail)
    with pytest.raises(DataError, match="buy a new disk"):
        prepare_folder(options(images, tmp_path / "out"), "prepare", on_spark(spark))


def waits_for_ever(files, advance):
    import time

    time.sleep(600)


def test_an_interrupt_cancels_the_tasks(spark, images, tmp_path, monkeypatch):
    import threading

    from tests.trainer.support.launched import wait_until

    tracker = spark.sparkContext.statusTracker()
    monkeypatch.setattr("trainer.data.prepare.job.write_shard", waits_for_ever)

    def interrupt():
        wait_until(lambda: bool(tracker.getActiveStageIds()))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(UserError, match="interrupted with 0 shards finished") as caught:
        prepare_folder(options(images, tmp_path / "out"), "prepare", on_spark(spark))
    assert caught.value.exit_code == 130
    wait_until(lambda: not tracker.getActiveStageIds(), 30)


def test_the_command_takes_relative_paths_and_writes_the_same(spark, images, tmp_path, monkeypatch):
    prepare_by_pool(images, tmp_path / "pool", shard_mb=1, max_rejected="2")
    monkeypatch.chdir(tmp_path)
    command = ["prepare", "folder", "--input", "in", "--output", "out", "--shard-mb", "1"]
    assert cli.main([*command, "--max-rejected", "2", "--with", "spark"]) == 0
    assert cli.main([*command[:5], "pool2", *command[6:], "--max-rejected", "2"]) == 0
    # The manifest names the command, without what did the work.
    assert content(tmp_path / "out") == content(tmp_path / "pool2")


def test_tars_are_written_as_by_the_pool(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {}
    for number in range(150):
        files |= {f"{number}.jpg": picture(number), f"{number}.cls": b"%d" % (number % 2)}
    (tmp_path / "a.tar").write_bytes(tar(files))
    for output, more in (("pool", []), ("out", ["--with", "spark"])):
        kind = ["webdataset", "--input", "a.tar"]
        assert cli.main(["prepare", *kind, "--output", output, *more]) == 0
    outputs = [tmp_path / output for output in ("pool", "out")]
    found, wanted = map(content, outputs)
    assert len(found) > 3
    manifests = [load_manifest(output) for output in outputs]
    assert manifests[0].version == manifests[1].version
    del found["manifest.json"], wanted["manifest.json"]
    assert found == wanted
