"""The code that `python -m jobs spec` writes next to its YAML."""

from pathlib import Path

import pytest

from jobs.commands.spec import written_code
from jobs.spec import code_snapshot
from jobs.spec.code_snapshot import CodeSnapshot, digest, files_below

CODE = CodeSnapshot({f"trainer/{name}.py": name.encode() for name in "abc"})


def digest_of(folder):
    return digest({name: path.read_bytes() for name, path in files_below(folder, folder).items()})


def test_code_is_written_once_and_whole(tmp_path):
    folder = written_code(tmp_path, CODE)
    assert digest_of(folder) == CODE.digest
    before = folder.stat().st_mtime_ns
    assert written_code(tmp_path, CODE) == folder
    assert folder.stat().st_mtime_ns == before
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("written", [0, 1])
def test_two_commands_at_once_both_find_the_code_whole(tmp_path, monkeypatch, written):
    write, others = code_snapshot.write_files, []

    def interrupted(folder, contents):
        first = dict(list(contents.items())[:written])
        write(folder, first)
        if not others:
            others.append(folder)
            others.append(digest_of(written_code(tmp_path, CODE)))
        write(folder, contents)

    monkeypatch.setattr(code_snapshot, "write_files", interrupted)
    assert digest_of(written_code(tmp_path, CODE)) == CODE.digest
    assert others[1] == CODE.digest


def test_code_that_a_killed_command_left_half_written_is_not_used(tmp_path, monkeypatch):
    def killed(folder, contents):
        Path(folder).mkdir(parents=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(code_snapshot, "write_files", killed)
        with pytest.raises(KeyboardInterrupt):
            written_code(tmp_path, CODE)
    assert digest_of(written_code(tmp_path, CODE)) == CODE.digest
