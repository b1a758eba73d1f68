"""Checkpoints on disk: complete or absent, and verified before they are used."""

import errno
import json
import os
import shutil
import stat

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import DONE, META, STATE
from trainer.checkpoints.names import key_of
from trainer.checkpoints.snapshot import restore, snapshot
from trainer.errors import CheckpointError


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


def save(folder, step, top1=None, attempt=None):
    rating = {"top1": top1} if top1 is not None else None
    return folder.save(step, tensors(step), {"evaluation": rating}, attempt)


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def steps(folder):
    return [key_of(path.name).step for path in folder.paths()]


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
    assert [path.name for path in folder.folder.iterdir()] == ["step-0000000007.a1"]


# 2. Damage.


@pytest.fixture
def pair(folder):
    """Two checkpoints, the newer of which a test damages."""
    return save(folder, 1), save(folder, 2)


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


def test_a_checkpoint_of_the_first_version_is_named_as_such_and_stays(folder, capsys):
    path = folder.folder / "step-0000000900"
    path.mkdir(parents=True)
    facts = {
        "bytes": 0,
        "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    for name in (STATE, META):
        (path / name).write_bytes(b"")
    (path / DONE).write_text(json.dumps({STATE: facts, META: facts}))
    save(folder, 20)
    folder.retain(1, keep_best=False)
    assert folder.newest().step == 20
    assert f"{path}: has schema 1, not 2; only another version" in capsys.readouterr().out
    assert path.exists()


def test_a_checkpoint_of_a_later_version_is_named_as_such(folder, pair, capsys):
    done = pair[1].path / DONE
    done.write_text(json.dumps({**json.loads(done.read_text()), "schema": 3}))
    assert folder.newest().step == 1
    assert f"{pair[1].path}: has schema 3, not 2" in capsys.readouterr().out


def test_a_checkpoint_under_another_name_is_not_what_it_says(folder, pair, capsys):
    pair[1].path.rename(folder.folder / "step-0000000003.a1")
    pair[0].path.rename(folder.folder / "step-0000000001.a2")
    assert folder.newest() is None
    assert capsys.readouterr().out.count("DONE: belongs to another checkpoint") == 2


def test_a_checkpoint_that_went_after_it_was_found_is_named(folder, pair):
    shutil.rmtree(pair[1].path)
    with pytest.raises(CheckpointError, match=f"{pair[1].path}: cannot be read any more"):
        pair[1].load()


# 3. What stays.


def test_the_newest_stay(folder):
    for step in (1, 2, 3, 4):
        save(folder, step)
    folder.retain(2, keep_best=False)
    assert steps(folder) == [4, 3]


@pytest.mark.parametrize(
    ("scores", "kept"), [((0.5, 0.9, 0.7, 0.8, None), [5, 4, 2]), ((0.5, 0.6, 0.9), [3, 2])]
)
def test_the_best_stays_beside_the_newest_and_counts_once_if_it_is_among_them(folder, scores, kept):
    for step, top1 in enumerate(scores, 1):
        save(folder, step, top1)
    folder.retain(2, keep_best=True)
    assert steps(folder) == kept


def test_of_equally_good_ones_the_newer_is_the_best(folder):
    for step, top1 in [(1, 0.9), (2, 0.9), (3, 0.1)]:
        save(folder, step, top1)
    assert folder.best().step == 2


def test_the_metric_of_the_newest_decides_which_is_the_best_of_all(folder):
    rated = {1: (0.9, 0.2), 2: (0.5, 0.8), 3: (0.6, 0.3), 4: (0.4, 0.4)}
    for step, (top1, balanced) in rated.items():
        by = {"decided_by": "balanced_accuracy"} if step > 3 else {}
        rating = {"top1": top1, "balanced_accuracy": balanced}
        folder.save(step, tensors(step), {"evaluation": rating, **by})
    assert folder.best().step == 2
    folder.retain(1, keep_best=True)
    assert steps(folder) == [4, 2]


def test_a_damaged_one_is_not_the_best(folder):
    save(folder, 1, 0.5)
    (save(folder, 2, 0.9).path / STATE).write_bytes(b"")
    assert folder.best().step == 1


def test_without_an_evaluation_there_is_no_best(folder):
    save(folder, 1)
    assert folder.best() is None


# 4. Attempts.


def test_each_claim_takes_the_next_number(folder):
    assert folder.claim() == 1
    assert CheckpointFolder(folder.folder).claim() == 2
    save(folder, 10, attempt=7)
    assert CheckpointFolder(folder.folder).claim() == 8


def test_an_attempt_saves_under_its_number(folder):
    folder.claim()
    again = CheckpointFolder(folder.folder)
    again.claim()
    saved = save(again, 10)
    assert saved.path.name == "step-0000000010.a2"
    assert (saved.key.attempt, saved.meta["attempt"]) == (2, 2)


def test_what_a_later_attempt_saved_is_newer_than_more_steps(folder):
    save(folder, 500, attempt=2)
    save(folder, 470, attempt=3)
    assert folder.newest().step == 470
    assert steps(folder) == [470, 500]


def test_a_step_that_was_saved_in_an_attempt_stays_as_it_is(folder):
    first = save(folder, 7)
    before = files(first.path)
    assert folder.save(7, tensors(8), {}) == first
    assert files(first.path) == before


def test_two_attempts_at_the_same_step_are_two_checkpoints(folder):
    save(folder, 7, attempt=1)
    save(folder, 7, attempt=2)
    assert [path.name for path in folder.paths()] == ["step-0000000007.a2", "step-0000000007.a1"]


def test_what_an_earlier_attempt_did_not_finish_goes_with_the_next_save(folder):
    (save(folder, 30, attempt=1).path / DONE).unlink()
    unfinished = save(folder, 40, attempt=1).path
    (unfinished / DONE).write_bytes(b'{"schema": 2, "st')
    damaged = save(folder, 50, attempt=1).path
    (damaged / META).write_bytes(b"")
    later = CheckpointFolder(folder.folder)
    save(later, 20, attempt=2)
    later.retain(3, keep_best=False)
    assert steps(folder) == [20, 50]


# 5. The index.


def index(folder):
    return json.loads((folder.folder / "index.json").read_text())


def test_the_index_lists_what_is_there(folder):
    for step, top1 in [(1, 0.5), (2, 0.9), (3, None), (4, 0.7)]:
        save(folder, step, top1)
    folder.retain(2, keep_best=True)
    found = index(folder)
    assert found["newest"] == "step-0000000004.a1"
    assert found["best"] == "step-0000000002.a1"
    assert [(each["step"], each["attempt"], each["score"]) for each in found["checkpoints"]] == [
        *((4, 1, 0.7), (3, 1, None), (2, 1, 0.9)),
    ]
    content = files(folder.folder / "step-0000000004.a1")
    assert found["checkpoints"][0]["bytes"] == len(content[STATE]) + len(content[META])


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_text('{"newest": "s')])
def test_everything_works_without_the_index(folder, damage):
    for step, top1 in [(1, 0.9), (2, 0.5)]:
        save(folder, step, top1)
        folder.retain(3, keep_best=True)
    damage(folder.folder / "index.json")
    again = CheckpointFolder(folder.folder)
    assert (again.newest().step, again.best().step) == (2, 1)
    save(again, 3)
    again.retain(1, keep_best=False)
    assert [each["step"] for each in index(folder)["checkpoints"]] == [3]


# 6. Files.


def test_a_mount_that_has_nothing_to_sync_in_a_folder_is_no_error(folder, monkeypatch):
    real = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert save(folder, 1) == folder.newest()


def test_a_file_system_that_does_not_say_how_much_is_free_is_written_to(folder, monkeypatch):
    class Facts:
        f_blocks = f_bavail = 0
        f_frsize = 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Facts())
    assert save(folder, 1) == folder.newest()


def test_the_tensors_are_a_safetensors_file_that_maps_into_memory(folder):
    path = save(folder, 1).path / STATE
    header = int.from_bytes(path.read_bytes()[:8], "little")
    assert header % 8 == 0
    loaded = safetensors.numpy.load_file(path)
    assert {name: value.tobytes() for name, value in loaded.items()} == {
        name: value.tobytes() for name, value in tensors(1).items()
    }


# 7. Variables.


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
    assert sorted(steps(folder)) == [950, 960, 1000, 1001, 1002]
    assert CheckpointFolder(folder.folder).newest().step == 960


def test_the_newest_step_is_that_of_a_complete_checkpoint(tmp_path):
    folder = CheckpointFolder(tmp_path / "checkpoints")
    assert folder.newest_step() is None
    for step in (22, 44):
        (folder.folder / f"step-{step:010d}").mkdir(parents=True)
    assert folder.newest_step() is None
    (folder.folder / "step-0000000022" / "DONE").touch()
    assert folder.newest_step() == 22
