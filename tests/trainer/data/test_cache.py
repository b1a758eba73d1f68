"""Copies of shards on the node's disk: made once, never half, and never a reason to end a run."""

import errno
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import xxhash

from tests import ROOT
from tests.trainer.support.command import TIMEOUT, TINY
from tests.trainer.support.forked import fork_trainer
from trainer.data import cache
from trainer.data.cache import ShardCache, open_cache
from trainer.data.manifest import Manifest, Normalization, Origin, Shard, Split, load_manifest


@pytest.fixture(autouse=True)
def _no_margin(monkeypatch):
    monkeypatch.setattr(cache, "MARGIN", 0)


@pytest.fixture
def origin(tmp_path):
    """Six files of 100 KB that stand for shards."""
    folder = tmp_path / "origin"
    folder.mkdir()
    for number in range(6):
        (folder / f"train-{number}.tfrecord").write_bytes(os.urandom(100_000))
    return folder


def shards_of(folder):
    return [
        Shard(path.name, 1, path.stat().st_size, xxhash.xxh3_128(path.read_bytes()).hexdigest(), ())
        for path in sorted(folder.iterdir())
    ]


def new_cache(origin, folder, shards=None, **options):
    folder.mkdir(exist_ok=True)
    return ShardCache(folder, origin, shards or shards_of(origin), **options)


def kept(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def count_copies(monkeypatch, log, seconds=0.0):
    """Note each beginning of a copy in a file that all processes append to."""
    real = cache._chunks

    def chunks(path):
        with log.open("a") as file:
            file.write(f"{path.name}\n")
        time.sleep(seconds)
        return real(path)

    monkeypatch.setattr(cache, "_chunks", chunks)


def ask(origin, folder, shards, log, ready):
    """Be a rank: ask for all shards at once, from several threads; what each got must be right."""
    count_copies(pytest.MonkeyPatch(), log, seconds=0.02)
    cache.MARGIN = 0
    ready.wait()
    found = ShardCache(folder, origin, shards)
    with ThreadPoolExecutor(2 * len(shards)) as pool:
        for path, shard in zip(pool.map(found.path, shards * 2), shards * 2, strict=True):
            assert path == folder / shard.file
            assert xxhash.xxh3_128(path.read_bytes()).hexdigest() == shard.xxh128


def test_ranks_and_threads_that_ask_at_once_get_one_copy_of_each_shard(tmp_path, origin):
    shards, folder, log = shards_of(origin), tmp_path / "cache", tmp_path / "log"
    folder.mkdir()
    # Not forked: other tests' threads may hold locks that a fork would keep for ever.
    spawned = multiprocessing.get_context("spawn")
    arguments = (origin, folder, shards, log, spawned.Barrier(3))
    ranks = [spawned.Process(target=ask, args=arguments) for _ in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(timeout=TIMEOUT)
    assert [rank.exitcode for rank in ranks] == [0, 0, 0]
    assert sorted(log.read_text().split()) == [shard.file for shard in shards]
    assert kept(folder) == [shard.file for shard in shards]


def test_what_is_kept_is_not_read_from_the_data_folder_again(tmp_path, origin):
    shards = shards_of(origin)
    first = new_cache(origin, tmp_path / "cache", shards)
    assert [first.path(shard).parent for shard in shards] == [tmp_path / "cache"] * 6
    shutil.rmtree(origin)
    second = new_cache(origin, tmp_path / "cache", shards)
    assert [second.path(shard).parent for shard in shards] == [tmp_path / "cache"] * 6


def test_the_background_copies_all_in_the_order_that_it_is_given(tmp_path, origin, monkeypatch):
    count_copies(monkeypatch, tmp_path / "log")
    shards = shards_of(origin)
    found = new_cache(origin, tmp_path / "cache", shards)
    order = [shards[number] for number in (3, 1, 5, 0, 2, 4)]
    found.fill(order)
    found._filler.join(timeout=TIMEOUT)
    assert (tmp_path / "log").read_text().split() == [shard.file for shard in order]
    assert kept(tmp_path / "cache") == [shard.file for shard in shards]


def test_closing_ends_the_background_in_the_middle_of_a_shard(tmp_path, origin, monkeypatch):
    def drip(path):
        while True:
            time.sleep(0.01)
            yield b"x"

    monkeypatch.setattr(cache, "_chunks", drip)
    shards = shards_of(origin)
    found = new_cache(origin, tmp_path / "cache", shards)
    found.fill(shards)
    time.sleep(0.1)
    found.close()
    assert not found._filler.is_alive()
    assert kept(tmp_path / "cache") == []
    # Reading goes on to the end of the run, from the data folder.
    assert found.path(shards[5]) == origin / shards[5].file


def test_an_exception_in_the_background_is_told_and_ends_nothing(
    tmp_path, origin, monkeypatch, capsys
):
    def explode(path):
        raise RuntimeError("cosmic ray")

    monkeypatch.setattr(cache, "_chunks", explode)
    found = new_cache(origin, tmp_path / "cache")
    found.fill(shards_of(origin))
    found._filler.join(timeout=TIMEOUT)
    assert "filling has stopped (RuntimeError: cosmic ray)" in capsys.readouterr().out


def test_a_full_disk_is_told_once_and_the_rest_is_read_from_the_folder(
    tmp_path, origin, monkeypatch, capsys
):
    shards, folder = shards_of(origin), tmp_path / "cache"
    found = new_cache(origin, folder, shards)

    def usage(path):
        return shutil._ntuple_diskusage(0, 0, 350_000 - 100_000 * len(kept(folder)))

    monkeypatch.setattr(shutil, "disk_usage", usage)
    paths = [found.path(shard) for shard in shards for _ in range(2)]
    assert [path.parent for path in paths] == [folder] * 6 + [origin] * 6
    assert capsys.readouterr().out == (
        f"warning: the cache in {folder} is full: 3 of 6 shards are kept, the others are read from"
        f" {origin}\n"
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EIO, "cannot be written (Input/output error)"), (errno.ENOSPC, "is full")],
)
def test_a_disk_that_cannot_be_written_any_more_is_told_once(
    tmp_path, origin, monkeypatch, capsys, number, words
):
    shards = shards_of(origin)
    found = new_cache(origin, tmp_path / "cache", shards)
    found.path(shards[0])

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    assert [found.path(shard).parent for shard in shards[1:]] == [origin] * 5
    out = capsys.readouterr().out
    assert out.count("warning") == 1
    assert f"{words}: 1 of 6 shards are kept" in out
    assert kept(tmp_path / "cache") == [shards[0].file]


def test_the_margin_stays_free_and_only_one_rank_of_a_node_tells_of_it(
    tmp_path, origin, monkeypatch, capsys
):
    monkeypatch.setattr(cache, "MARGIN", 1 << 60)
    found = new_cache(origin, tmp_path / "cache", chief=False)
    assert found.path(shards_of(origin)[0]).parent == origin
    assert capsys.readouterr().out == ""


def test_a_copy_of_the_wrong_size_is_made_again(tmp_path, origin, capsys):
    shards = shards_of(origin)
    found = new_cache(origin, tmp_path / "cache", shards)
    (tmp_path / "cache" / shards[0].file).write_bytes(b"half")
    path = found.path(shards[0])
    assert path.read_bytes() == (origin / shards[0].file).read_bytes()
    assert f"{path}: has 4 bytes, not 100000; copying it again" in capsys.readouterr().out


def test_an_original_with_another_hash_is_copied_twice_and_not_kept(
    tmp_path, origin, monkeypatch, capsys
):
    count_copies(monkeypatch, tmp_path / "log")
    shards = [replace(shard, xxh128="0" * 32) for shard in shards_of(origin)]
    found = new_cache(origin, tmp_path / "cache", shards)
    assert [found.path(shards[0]) for _ in range(3)] == [origin / shards[0].file] * 3
    assert (tmp_path / "log").read_text().split() == [shards[0].file] * 2
    out = capsys.readouterr().out
    assert out.count("warning") == 1
    assert f"{origin / shards[0].file}: does not have the manifest's hash" in out
    assert kept(tmp_path / "cache") == []


def test_a_copy_that_arrives_right_the_second_time_is_kept(tmp_path, origin, monkeypatch, capsys):
    real, times = cache._chunks, []

    def chunks(path):
        times.append(path)
        return iter([b"x" * 100_000]) if len(times) == 1 else real(path)

    monkeypatch.setattr(cache, "_chunks", chunks)
    shard = shards_of(origin)[0]
    assert new_cache(origin, tmp_path / "cache").path(shard).parent == tmp_path / "cache"
    assert capsys.readouterr().out == ""


def test_a_missing_original_is_left_to_those_who_read_it(tmp_path, origin, capsys):
    shards = shards_of(origin)
    (origin / shards[0].file).unlink()
    found = new_cache(origin, tmp_path / "cache", shards)
    assert found.path(shards[0]) == origin / shards[0].file
    assert "cannot be read (No such file or directory)" in capsys.readouterr().out
    assert found.path(shards[1]).parent == tmp_path / "cache"


def test_a_damaged_copy_is_removed_and_a_sound_one_stays(tmp_path, origin, capsys):
    shards = shards_of(origin)
    found = new_cache(origin, tmp_path / "cache", shards)
    damaged, sound = found.path(shards[0]), found.path(shards[1])
    damaged.write_bytes(b"y" * 100_000)
    found.check(shards[0])
    found.check(shards[1])
    found.check(shards[2])
    assert not damaged.exists()
    assert sound.exists()
    assert [found.path(shard) for shard in shards[:2]] == [origin / shards[0].file, sound]
    assert capsys.readouterr().out == (
        f"warning: {damaged}: is damaged; from now on the shard is read from {origin}\n"
    )
    # The next run copies it again.
    assert new_cache(origin, tmp_path / "cache", shards).path(shards[0]) == damaged


def test_a_copy_that_was_killed_leaves_nothing_that_is_used(tmp_path, origin):
    (origin / "train-0.tfrecord").write_bytes(os.urandom(40 << 20))
    shard, folder = shards_of(origin)[0], tmp_path / "cache"
    folder.mkdir()
    code = (
        "import sys, time; from pathlib import Path; from trainer.data import cache\n"
        "from trainer.data.manifest import Shard\n"
        "real = cache._chunks\n"
        "def two_chunks(path):\n"
        "    chunks = real(path)\n"
        "    yield next(chunks)\n"
        "    yield next(chunks)\n"
        "    print('written', flush=True)\n"
        "    time.sleep(3600)\n"
        "cache._chunks = two_chunks\n"
        f"shard = {shard!r}\n"
        f"cache.ShardCache(Path({str(folder)!r}), Path({str(origin)!r}), [shard]).path(shard)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert kept(folder) == [f"{shard.file}.partial"]
    # The lock has gone with the process, and its half a copy is overwritten.
    path = new_cache(origin, folder, [shard]).path(shard)
    assert path.read_bytes() == (origin / shard.file).read_bytes()
    assert kept(folder) == [shard.file]


def manifest_of(origin):
    splits = {"train": Split(tuple(shards_of(origin)), (6,), ("PNG",))}
    return Manifest(("a",), Normalization((1.0,) * 3, (1.0,) * 3), splits, Origin("test"))


def test_each_version_of_the_data_has_copies_of_its_own(tmp_path, origin):
    first = manifest_of(origin)
    second = replace(first, classes=("b",))
    for manifest in (first, second):
        found = open_cache(str(tmp_path / "deep" / "cache"), manifest, origin, chief=True)
        folder = tmp_path / "deep" / "cache" / manifest.version
        assert found.path(manifest.splits["train"].shards[0]).parent == folder


@pytest.mark.parametrize("chief", [True, False])
def test_a_cache_that_cannot_be_made_is_told_and_done_without(tmp_path, origin, capsys, chief):
    (tmp_path / "file").write_text("no folder")
    assert open_cache(str(tmp_path / "file"), manifest_of(origin), origin, chief=chief) is None
    out = capsys.readouterr().out
    assert ("--data.cache-dir" in out and "Not a directory" in out) == chief


@pytest.mark.slow
def test_a_run_reads_what_is_kept_and_keeps_what_is_missing(tmp_path, digits_folder):
    shutil.copytree(digits_folder, tmp_path / "set")
    copies = tmp_path / "cache" / load_manifest(tmp_path / "set").version
    copies.mkdir(parents=True)
    for path in (tmp_path / "set").glob("train-*"):
        shutil.copy(path, copies)
    # Of the same size, as a run begins by looking for its shards; but nothing that can be read.
    for path in (tmp_path / "set").glob("train-*"):
        path.write_bytes(b"\0" * path.stat().st_size)
    args = [*TINY, "--max-steps", "5", "--data.dir", "set", "--data.cache-dir", "cache"]
    done = fork_trainer("train", *args, cwd=tmp_path, ranks=1)
    assert done.returncode == 0, done.stderr
    assert not re.search("warning: .*cache", done.stdout)
    assert kept(copies) == sorted(path.name for path in (tmp_path / "set").glob("*.tfrecord"))
