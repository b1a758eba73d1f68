"""Files are written completely or not at all."""

import pytest

from common.files import write_atomically


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
