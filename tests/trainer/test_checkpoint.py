"""Checkpoints on disk: complete or absent, and verified before they are used."""

import errno
import hashlib
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from trainer.checkpoint import DONE, META, STATE, CheckpointFolder, restore, snapshot
from trainer.errors import CheckpointError

WRITES = 5
"""Syncs of a save: three files, their folder, and the folder of all checkpoints."""


@pytest.fixture
def folder(tmp_path):
    return CheckpointFolder(tmp_path / "checkpoints")


def tensors(seed=0):
    source = np.random.default_rng(seed)
    return {
        "kernel": source.normal(size=(3, 5)).astype(np.float32),
        "tiny": np.array([np.nan, np.inf, -0.0, 1e-45], np.float32),
        "double": source.normal(size=(2, 1, 4)),
        "step": np.array(2**40 + seed, np.int64),
        "flag": np.array(True),
        "other": np.array(False),
        "empty": np.zeros((0, 3), np.float32),
    }


def save(folder, step, top1=None, meta=None):
    rating = {"top1": top1} if top1 is not None else None
    return folder.save(step, tensors(step), {"evaluation": rating, **(meta or {})})


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def steps(folder):
    return [int(path.name.removeprefix("step-")) for path in folder.steps()]


# 1. Round trips.


def test_tensors_come_back_bit_for_bit(folder):
    folder.save(7, tensors(), {})
    found = folder.newest()
    assert found is not None
    loaded, saved = found.load(), tensors()
    assert loaded.keys() == saved.keys()
    for name, value in saved.items():
        assert loaded[name].dtype == value.dtype
        assert loaded[name].shape == value.shape
        assert loaded[name].tobytes() == value.tobytes()


def test_meta_data_come_back(folder):
    meta = {"seconds": {"train": 0.1}, "position": 2**40, "evaluation": None}
    folder.save(7, tensors(), meta)
    found = folder.newest()
    assert found is not None
    assert found.step == 7
    assert found.meta.items() >= meta.items()


def test_what_save_returns_is_what_is_found(folder):
    saved = save(folder, 7)
    assert folder.newest() == saved


def test_the_newest_is_the_one_of_most_steps(folder):
    for step in (900, 1000, 20):
        save(folder, step)
    assert folder.newest().step == 1000


def test_a_folder_that_is_not_there_has_no_checkpoint(folder):
    assert folder.newest() is None
    assert folder.best() is None


def test_a_save_replaces_a_damaged_one_of_the_same_step(folder):
    damaged = save(folder, 7)
    (damaged.path / STATE).write_bytes(b"")
    save(folder, 7)
    assert folder.newest().step == 7


def test_a_save_leaves_nothing_but_the_checkpoint(folder):
    save(folder, 7)
    assert [path.name for path in folder.folder.iterdir()] == ["step-0000000007"]


# 2. Damage.


@pytest.fixture
def pair(folder):
    """Two checkpoints, the newer of which a test damages."""
    return save(folder, 1), save(folder, 2)


@pytest.mark.parametrize("flip", [0x01, 0x02, 0x20, 0xFF], ids=hex)
@pytest.mark.parametrize("name", [STATE, META, DONE])
def test_a_single_changed_byte_is_noticed(folder, pair, name, flip):
    path = pair[1].path / name
    good = path.read_bytes()
    unnoticed = []
    for place in {*range(0, len(good), max(len(good) // 250, 1)), len(good) - 1}:
        path.write_bytes(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])
        if folder.newest().step != 1:
            unnoticed.append((place, good[max(place - 12, 0) : place + 4]))
    assert unnoticed == []


@pytest.mark.parametrize("name", [STATE, META, DONE])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_file_is_noticed(folder, pair, name, part):
    path = pair[1].path / name
    good = path.read_bytes()
    path.write_bytes(good[: int(len(good) * part)])
    assert folder.newest().step == 1


@pytest.mark.parametrize("name", [STATE, META, DONE])
def test_a_longer_file_is_noticed(folder, pair, name):
    path = pair[1].path / name
    path.write_bytes(path.read_bytes() + b"\x01")
    assert folder.newest().step == 1


@pytest.mark.parametrize("name", [STATE, META, DONE])
def test_a_missing_file_is_noticed(folder, pair, name):
    (pair[1].path / name).unlink()
    assert folder.newest().step == 1


@pytest.mark.parametrize("text", ["{}", "[]", "null", "7", '{"meta.json": 1}'])
def test_a_listing_without_the_files_proves_nothing(folder, pair, text):
    (pair[1].path / DONE).write_text(text)
    assert folder.newest().step == 1


def test_a_damaged_checkpoint_is_named_and_passed_over(folder, pair, capsys):
    (pair[1].path / STATE).write_bytes(b"")
    assert folder.newest().step == 1
    printed = capsys.readouterr().out
    assert "warning: " in printed
    assert str(pair[1].path / STATE) in printed
    assert pair[0].path.name not in printed


def test_an_incomplete_checkpoint_is_named_and_passed_over(folder, pair, capsys):
    (pair[1].path / DONE).unlink()
    assert folder.newest().step == 1
    assert f"{pair[1].path}: incomplete" in capsys.readouterr().out


def test_a_sound_checkpoint_is_taken_without_a_word(folder, pair, capsys):
    assert folder.newest().step == 2
    assert capsys.readouterr().out == ""


def test_without_any_sound_checkpoint_there_is_none(folder, pair):
    for checkpoint in pair:
        shutil.rmtree(checkpoint.path)
        checkpoint.path.mkdir()
    assert folder.newest() is None


def test_another_schema_is_not_read(folder, capsys):
    saved = save(folder, 3)
    content = json.loads((saved.path / META).read_text())
    listing = json.loads((saved.path / DONE).read_text())
    changed = json.dumps({**content, "schema": 99}).encode()
    (saved.path / META).write_bytes(changed)
    listing[META]["bytes"] = len(changed)
    listing[META]["sha256"] = hashlib.sha256(changed).hexdigest()
    (saved.path / DONE).write_text(json.dumps(listing))
    assert folder.newest() is None
    assert "has schema 99, not 1" in capsys.readouterr().out


# 3. What stays.


def test_the_newest_stay(folder):
    for step in (1, 2, 3, 4):
        save(folder, step)
    folder.retain(2, keep_best=False)
    assert steps(folder) == [4, 3]


def test_the_best_stays_beside_the_newest(folder):
    for step, top1 in [(1, 0.5), (2, 0.9), (3, 0.7), (4, 0.8), (5, None)]:
        save(folder, step, top1)
    folder.retain(2, keep_best=True)
    assert steps(folder) == [5, 4, 2]


def test_the_best_counts_once_if_it_is_among_the_newest(folder):
    for step, top1 in [(1, 0.5), (2, 0.6), (3, 0.9)]:
        save(folder, step, top1)
    folder.retain(2, keep_best=True)
    assert steps(folder) == [3, 2]


def test_of_equally_good_ones_the_newer_is_the_best(folder):
    for step, top1 in [(1, 0.9), (2, 0.9), (3, 0.1)]:
        save(folder, step, top1)
    assert folder.best().step == 2


def test_a_damaged_one_is_not_the_best(folder):
    save(folder, 1, 0.5)
    (save(folder, 2, 0.9).path / STATE).write_bytes(b"")
    assert folder.best().step == 1


def test_without_an_evaluation_there_is_no_best(folder):
    save(folder, 1)
    assert folder.best() is None


# 4. A disk that is full.


def fail_sync(monkeypatch, number):
    calls = iter(range(1, 100))
    real = os.fsync

    def fsync(descriptor):
        if next(calls) == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_save_that_fails_says_so(folder, monkeypatch, number):
    fail_sync(monkeypatch, number)
    with pytest.raises(OSError, match="No space left"):
        save(folder, 2)


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_save_that_fails_leaves_nothing_partial(folder, monkeypatch, number):
    save(folder, 1)
    fail_sync(monkeypatch, number)
    with pytest.raises(OSError, match="No space left"):
        save(folder, 2)
    monkeypatch.undo()
    assert [path.name for path in folder.folder.iterdir() if path.name.startswith(".")] == []
    for path in folder.steps():
        assert {file.name for file in path.iterdir()} == {STATE, META, DONE}


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_save_that_fails_leaves_older_ones_as_they_were(folder, monkeypatch, number):
    older = save(folder, 1)
    before = files(older.path)
    fail_sync(monkeypatch, number)
    with pytest.raises(OSError, match="No space left"):
        save(folder, 2)
    assert files(older.path) == before


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_save_that_failed_can_be_repeated(folder, monkeypatch, number):
    fail_sync(monkeypatch, number)
    with pytest.raises(OSError, match="No space left"):
        save(folder, 2)
    monkeypatch.undo()
    assert save(folder, 2) == folder.newest()


def test_what_a_killed_save_left_is_no_checkpoint(folder):
    save(folder, 1)
    (folder.folder / ".step-0000000002.partial").mkdir()
    assert folder.newest().step == 1
    assert save(folder, 2) == folder.newest()
    assert [path.name for path in folder.folder.iterdir() if path.name.startswith(".")] == []


# 5. Variables.


@pytest.fixture
def variables():
    return {
        "kernel": tf.Variable(tf.fill([3, 5], 0.5)),
        "step": tf.Variable(4, dtype=tf.int64),
        "flag": tf.Variable(True),
    }


def test_a_snapshot_is_a_copy(variables):
    taken = snapshot(variables)
    variables["kernel"].assign_add(tf.ones([3, 5]))
    variables["step"].assign_add(1)
    variables["flag"].assign(False)
    assert np.array_equal(taken["kernel"], np.full([3, 5], 0.5, np.float32))
    assert taken["step"] == 4
    assert taken["flag"]


def test_a_snapshot_restores_the_variables(folder, variables):
    taken = folder.save(4, snapshot(variables), {})
    variables["kernel"].assign(tf.zeros([3, 5]))
    variables["step"].assign(9)
    variables["flag"].assign(False)
    restore(variables, taken.load(), taken.path)
    assert np.array_equal(variables["kernel"].numpy(), np.full([3, 5], 0.5, np.float32))
    assert variables["step"].numpy() == 4
    assert variables["flag"].numpy()


def changes():
    ones = np.ones([3, 5], np.float32)
    good = {"kernel": ones, "step": np.array(1, np.int64), "flag": np.array(False)}
    return {
        "missing": ({k: v for k, v in good.items() if k != "step"}, "missing.*step"),
        "unknown": ({**good, "bias": ones}, "unknown.*bias"),
        "renamed": (
            {"kernel2": ones, **{k: v for k, v in good.items() if k != "kernel"}},
            "missing.*kernel.*unknown.*kernel2",
        ),
        "shape": ({**good, "kernel": ones.T}, r"kernel \(5, 3\) instead of \(3, 5\)"),
        "rank": ({**good, "step": np.array([1], np.int64)}, r"step \(1,\) instead of \(\)"),
    }


@pytest.mark.parametrize("case", changes())
def test_tensors_of_another_model_are_refused_and_nothing_is_assigned(variables, tmp_path, case):
    wrong, message = changes()[case]
    before = {name: value.tobytes() for name, value in snapshot(variables).items()}
    with pytest.raises(CheckpointError, match=message) as caught:
        restore(variables, wrong, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert {name: value.tobytes() for name, value in snapshot(variables).items()} == before


def test_damaged_newer_ones_neither_push_out_the_good_nor_are_deleted(folder):
    save(folder, 900)
    for step in (1000, 1001, 1002):
        (save(folder, step).path / DONE).unlink()
    # As a run does that was continued from 900.
    continued = CheckpointFolder(folder.folder)
    assert continued.newest().step == 900
    for step in (950, 960):
        save(continued, step)
        continued.retain(2, keep_best=False)
        assert continued.newest().step == step
    names = sorted(path.name for path in folder.folder.iterdir())
    assert names == [f"step-{step:010d}" for step in (950, 960, 1000, 1001, 1002)]
    assert CheckpointFolder(folder.folder).newest().step == 960
