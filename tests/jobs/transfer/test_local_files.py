"""Local files are found, checked and read for an upload."""

import os
from hashlib import md5

import pytest

from jobs.transfer.local_files import ChangedError, LocalError, scan


def test_files_are_found_in_order_with_their_sizes(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two").write_bytes(b"22")
    (tmp_path / "a").write_bytes(b"1")
    found = scan(tmp_path)
    assert {name: file.size for name, file in found.files.items()} == {"a": 1, "b/two": 2}
    assert list(found.files) == ["a", "b/two"]
    assert found.size == 3


def test_hidden_files_and_empty_folders_are_left_out_and_named(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").touch()
    (tmp_path / "a" / "b").mkdir(parents=True)
    found = scan(tmp_path)
    assert (dict(found.files), found.hidden, found.empty) == ({}, (".git",), ("a/b",))


def test_everything_that_cannot_be_sent_is_named_at_once(tmp_path):
    (tmp_path / "good").touch()
    (tmp_path / "link").symlink_to("good")
    (tmp_path / "folder").symlink_to("/tmp")
    (tmp_path / "back\\slash").touch()
    (tmp_path / "line\nfeed").touch()
    (tmp_path / "dot.").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"latin-\xe9")).touch()
    with pytest.raises(LocalError) as error:
        scan(tmp_path)
    told = str(error.value)
    for words in (
        "link: is a symbolic link", "folder: is a symbolic link",
        "'back\\\\slash': its name has a backslash",
        "'line\\nfeed': its name has a backslash or a control",
        "dot.: a part of its name ends with a dot",
        "pipe: is not a regular file", "is not valid UTF-8",
    ):  # fmt: skip
        assert words in told
    assert "good" not in told


def test_a_place_that_is_not_there_is_told(tmp_path):
    with pytest.raises(LocalError, match="nowhere: does not exist"):
        scan(tmp_path / "nowhere")


@pytest.mark.parametrize("change", ["append", "rewrite", "replace", "shorten"])
def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path, change):
    path = tmp_path / "file"
    path.write_bytes(bytes(3000))
    (file,) = scan(path).files.values()
    blocks = file.blocks(1000, md5())
    next(blocks)
    if change == "append":
        with path.open("ab") as opened:
            opened.write(b"x")
    elif change == "rewrite":
        with path.open("r+b") as opened:
            opened.write(b"x")
        os.utime(path, ns=(file.stamp[1] + 1, file.stamp[1] + 1))
    elif change == "replace":
        (tmp_path / "other").write_bytes(bytes(3000))
        (tmp_path / "other").replace(path)
    else:
        os.truncate(path, 1500)
    with pytest.raises(ChangedError, match="changed during the upload"):
        list(blocks)


def test_a_file_that_changed_before_it_is_read_is_noticed(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before")
    (file,) = scan(path).files.values()
    path.write_bytes(b"another")
    with pytest.raises(ChangedError):
        list(file.blocks(1000, md5()))


def test_a_file_that_cannot_be_read_any_more_is_told(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    (file,) = scan(path).files.values()
    path.unlink()
    with pytest.raises(LocalError, match="cannot be read"):
        list(file.blocks(1000, md5()))
