"""Whatever fails while a checkpoint is written, a complete one is found, and it is not a mix."""

import errno
import os
import shutil
from contextlib import suppress

import numpy as np
import pytest
import safetensors.numpy

from tests.trainer.support.checkpoint_files import FaultyFiles, Killed, MemoryFiles, crashes
from trainer.checkpoints.filesystem import LocalFiles
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import DONE, META, STATE, read_checkpoint
from trainer.errors import CheckpointError, SupersededError

NEW = "step-0000000400.a2"
FAULTS = {
    "full": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "broken": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "killed": Killed,
}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Syncs of the disk are not tested here, and take their time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def tensors(step):
    source = np.random.default_rng(step)
    return {
        "kernel": source.normal(size=(3, 5)).astype(np.float32),
        "step": np.array(step, np.int64),
    }


def save(folder, step, attempt=None):
    return folder.save(step, tensors(step), {"evaluation": {"top1": 1 / step}}, attempt)


def earlier_attempt(root, files):
    """A run whose first attempt saved three times, and was killed as it saved before the last."""
    folder = CheckpointFolder(root, files)
    folder.claim()
    for step in (100, 200, 250, 300):
        save(folder, step)
    files.remove(root / "step-0000000250.a1" / DONE)
    return root


def attempt(root, files, told, keep=2):
    """The scenario: a second attempt, which claims, looks, saves and deletes old checkpoints."""
    folder = CheckpointFolder(root, files)
    folder.claim()
    assert folder.newest().step == 300
    save(folder, 400)
    told.append("saved")
    folder.retain(keep, keep_best=False)
    told.append("retained")
    return folder


def check(root, files, allowed):
    """A fresh reader finds one of these, and its content is of one piece."""
    found = CheckpointFolder(root, files).newest()
    assert found is not None
    assert found.step in allowed
    loaded = safetensors.numpy.load(b"".join(files.read(found.path / STATE)))
    assert {name: value.tobytes() for name, value in loaded.items()} == {
        name: value.tobytes() for name, value in tensors(found.step).items()
    }
    assert found.meta["evaluation"] == {"top1": 1 / found.step}
    assert found.meta["step"] == found.step


def go_on(root, files, step=500):
    """The next attempt saves, and leaves no leftovers of earlier ones."""
    folder = CheckpointFolder(root, files)
    folder.claim()
    save(folder, step)
    folder.retain(2, keep_best=False)
    check(root, files, {step})
    for name in files.names(root):
        if name.startswith("step-"):
            read_checkpoint(files, root / name)


def journal_of(root):
    """The operations of an attempt that nothing disturbs."""
    files = FaultyFiles(MemoryFiles())
    start = MemoryFiles()
    earlier_attempt(root, start)
    files = FaultyFiles(start.copy())
    attempt(root, files, [])
    return start, files.journal


def count_operations(tmp_path):
    return len(journal_of(tmp_path)[1])


# 1. An operation fails, or the process is killed in it.


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
@pytest.mark.parametrize("fault", FAULTS)
def test_after_any_fault_there_is_a_checkpoint_and_the_run_goes_on(tmp_path, fault, torn):
    """On real files."""
    template, operations = tmp_path / "template", count_operations(tmp_path)
    earlier_attempt(template, LocalFiles())
    assert operations > 40
    for number in range(operations):
        root = tmp_path / str(number)
        shutil.copytree(template, root)
        files, told = FaultyFiles(LocalFiles(), number, FAULTS[fault](), torn=torn), []
        # The assertion: what cannot be read is skipped.
        with suppress(OSError, Killed, AssertionError):
            attempt(root, files, told)
        check(root, LocalFiles(), {400} if told else {300, 400})
        go_on(root, LocalFiles())
        shutil.rmtree(root)


@pytest.mark.parametrize("fault", ["full", "broken"])
def test_the_same_attempt_saves_again_after_any_fault(tmp_path, fault):
    start, _ = journal_of(tmp_path)
    failed = 0
    for number in range(100):
        memory = start.copy()
        files = FaultyFiles(memory, number, FAULTS[fault]())
        folder = CheckpointFolder(tmp_path, files)
        try:
            save(folder, 400, attempt=2)
        except OSError:
            failed += 1
            # Nothing of it stays on a disk that is full as it is.
            assert "step-0000000400.a2" not in memory.names(tmp_path)
            check(tmp_path, memory, {300})
        if len(files.journal) <= number:
            break
        save(folder, 400, attempt=2)
        check(tmp_path, memory, {400})
    else:
        pytest.fail("a save has no end")
    assert failed > 8


def test_a_failing_index_is_no_failing_save(tmp_path):
    start, journal = journal_of(tmp_path)
    numbers = [n for n, operation in enumerate(journal) if "index.json" in operation.path.name]
    assert len(numbers) == 3
    for number in numbers:
        told = []
        attempt(tmp_path, FaultyFiles(start.copy(), number, FAULTS["full"]()), told)
        assert told == ["saved", "retained"]


def test_a_full_disk_is_not_filled_to_the_last_byte(tmp_path):
    class Tight(LocalFiles):
        def free_bytes(self, path):
            return 67

    files = FaultyFiles(Tight())
    with pytest.raises(OSError, match="No space left"):
        CheckpointFolder(tmp_path, files).save(1, tensors(1), {})
    assert "write" not in [operation.what for operation in files.journal]
    # 15 float32 and an int64 are 68 bytes.


# 2. A crash loses what had not reached the disk.


def test_what_a_crash_may_lose_of_what_was_not_synced_is_never_missed(tmp_path):
    start, journal = journal_of(tmp_path)
    states = 0
    for end in range(len(journal) + 1):
        saved = any(
            operation.what == "sync_folder" and number > done
            for done in [n for n, o in enumerate(journal) if o.path.parts[-2:] == (NEW, DONE)]
            for number, operation in enumerate(journal[:end])
        )
        for files in crashes(start, journal[:end], syncs_hold=True, lost=99):
            states += 1
            check(tmp_path, files, {400} if saved else {300, 400})
    assert states > 500


@pytest.mark.long
def test_where_syncs_mean_nothing_the_one_before_is_there_if_two_are_kept(tmp_path):
    start, journal = journal_of(tmp_path)
    for end in range(len(journal) + 1):
        for files in crashes(start, journal[:end], syncs_hold=False, lost=2):
            check(tmp_path, files, {300, 400})


@pytest.mark.long
def test_whatever_a_crash_leaves_the_next_attempt_saves(tmp_path):
    start, journal = journal_of(tmp_path)
    for end in range(len(journal) + 1):
        for files in crashes(start, journal[:end], syncs_hold=True, lost=2):
            go_on(tmp_path, files)


# 3. Damage.


def test_every_flipped_bit_and_every_truncation_is_noticed(tmp_path):
    files = MemoryFiles()
    path = save(CheckpointFolder(tmp_path, files), 7).path
    for name in (STATE, META, DONE):
        good = files.content[path / name]
        flipped = [
            good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :]
            for place in range(len(good))
            for bit in range(8)
        ]
        for content in [*flipped, *(good[:length] for length in range(len(good))), good + b"\n"]:
            files.content[path / name] = content
            if name == DONE and content == good + b"\n":
                continue
            with pytest.raises(CheckpointError):
                read_checkpoint(files, path)
        files.content[path / name] = good
    assert read_checkpoint(files, path).step == 7


# 4. Two attempts at once.


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("saves", [False, True], ids=["claims", "claims-and-saves"])
def test_an_overtaken_attempt_changes_nothing_of_the_later_one(tmp_path, saves, keep):
    start, journal = journal_of(tmp_path)
    superseded = 0
    # The claim of the earlier attempt itself is not disturbed.
    for number in range(6, len(journal)):
        memory, later = start.copy(), {}

        def overtake(memory=memory, later=later):
            folder = CheckpointFolder(tmp_path, memory)
            later["attempt"] = folder.claim()
            later["found"] = folder.newest().step
            if saves:
                save(folder, 350)
                folder.retain(keep, keep_best=False)
            later["wrote"] = {
                path: data for path, data in memory.content.items() if belongs(path, "3")
            }

        files = FaultyFiles(memory, number, before=overtake)
        try:
            attempt(tmp_path, files, [], keep)
        except SupersededError:
            superseded += 1
        except OSError:
            # The later one has deleted the checkpoint that it was about to finish.
            assert saves
        assert later["attempt"] == 3
        assert later["found"] in {300, 400}
        wrote = later["wrote"]
        assert wrote
        assert {path: memory.content.get(path) for path in wrote} == wrote
        assert not begun(files.journal, number)
        check(tmp_path, memory, {350} if saves else {300, 400})
        go_on(tmp_path, memory)
    assert superseded > 20


def begun(journal, number):
    """Checkpoints that an attempt began to finish or to delete after it was overtaken before an
    operation."""
    if journal[number].what == "read" and journal[number].path.name.startswith("attempt-"):
        # It was overtaken in the middle of looking.
        return []
    finishes = ("write", DONE)
    deletes = (("remove", DONE), ("remove", ".index.json.partial"))
    return [
        operation
        for operation in journal[number + 1 :]
        if (operation.what, operation.path.name) == finishes
        or ((operation.what, operation.path.name) in deletes and NEW not in operation.path.parts)
    ]


def belongs(path, attempt):
    return any(part.endswith((f".a{attempt}", f"-000000000{attempt}")) for part in path.parts)


def test_an_attempt_that_is_overtaken_before_it_saves_touches_nothing(tmp_path):
    files = MemoryFiles()
    earlier = CheckpointFolder(earlier_attempt(tmp_path, files), files)
    CheckpointFolder(tmp_path, files).claim()
    before = dict(files.content)
    with pytest.raises(SupersededError, match=r"attempt 2 .* has begun.*no longer saves"):
        save(earlier, 400, attempt=1)
    with pytest.raises(SupersededError):
        earlier.retain(1, keep_best=False, attempt=1)
    assert files.content == before


def test_a_later_checkpoint_alone_supersedes_an_attempt(tmp_path):
    files = MemoryFiles()
    folder = CheckpointFolder(tmp_path, files)
    save(folder, 100, attempt=4)
    with pytest.raises(SupersededError):
        save(folder, 200, attempt=3)


def test_two_that_claimed_the_same_number_do_not_both_save(tmp_path):
    """As on a mount where creating a file is not exclusive: the last one to write it has it."""
    files = MemoryFiles()
    first, second = CheckpointFolder(tmp_path, files), CheckpointFolder(tmp_path, files)
    assert first.claim() == 1
    marker = files.content.pop(tmp_path / "attempt-0000000001")
    assert second.claim() == 1
    assert files.content[tmp_path / "attempt-0000000001"] != marker
    with pytest.raises(SupersededError, match="another process is also attempt 1 of this run"):
        save(first, 100)
    save(second, 100)
