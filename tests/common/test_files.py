"""Files are written completely or not at all."""

import errno
import os
import pickle
from pathlib import Path

import pytest

from common.files import UnwritableError, write_atomically, write_table


def test_a_file_and_its_folder_are_made(tmp_path):
    write_atomically(tmp_path / "new" / "page.html", "läuft", sync=True)
    assert (tmp_path / "new" / "page.html").read_text(encoding="utf-8") == "läuft"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["page.html"]


def test_what_cannot_be_written_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / "record.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \udce4")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_characters_that_utf8_does_not_have_may_be_replaced(tmp_path):
    write_atomically(tmp_path / "page", "a\udce4", errors="replace")
    assert (tmp_path / "page").read_text() == "a?"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
@pytest.mark.parametrize("refused", ["mkdir", "open", "replace"])
def test_what_may_not_be_written_is_named_as_it_would_be_called(
    tmp_path, monkeypatch, number, refused
):
    # Permissions do not keep the superuser from writing, which tests may be.
    def refuse(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, refused, refuse)
    with pytest.raises(UnwritableError) as raised:
        write_atomically(tmp_path / "page.html", "new")
    assert str(raised.value) == (
        f"{tmp_path}/page.html: is not writable ({os.strerror(number)}); let this user write there,"
        " or choose another place"
    )
    assert isinstance(pickle.loads(pickle.dumps(raised.value)), OSError)
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_files_that_cannot_be_read_meanwhile_are_named_themselves(tmp_path):
    def rows():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "labels.csv")
        yield

    with pytest.raises(PermissionError, match=r"'labels\.csv'"):
        write_table(tmp_path / "table.csv", ("a",), rows())
