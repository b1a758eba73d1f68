"""The images below folders: all that are not hidden, or an error or a note that names the rest."""

import errno
import os

import pytest

from common.errors import UserError
from common.image_files import ImageFiles, find_images

LEFT_BEHIND = (
    *("._0.png", "@eaDir/0.png/SYNOPHOTO_THUMB_M.png", ".ipynb_checkpoints/0-checkpoint.png"),
    *("__MACOSX/0.png", "sub/$RECYCLE.BIN/0.png", "Thumbs.db", "desktop.ini", ".DS_Store"),
)
"""Of macOS, Synology, Jupyter, archives and Windows."""


def write(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")


def test_hidden_files_and_folders_are_neither_images_nor_counted(tmp_path):
    write(tmp_path, "0.png", "sub/1.JPG", "notes.txt", *LEFT_BEHIND)
    (tmp_path / ".broken.png").symlink_to("nothing")
    listing = find_images([str(tmp_path)])
    assert [path.relative_to(tmp_path).as_posix() for path in listing.paths] == [
        "0.png",
        "sub/1.JPG",
    ]
    assert (dict(listing.left_out), listing.no_files) == ({".txt": 1}, 0)


def test_a_hidden_file_or_folder_that_is_named_is_read(tmp_path):
    write(tmp_path, ".cache/0.png", "._1.png")
    named = [tmp_path / ".cache", tmp_path / "._1.png"]
    assert find_images(map(str, named)).paths == [named[0] / "0.png", named[1]]


def test_a_folder_of_hidden_files_has_no_images(tmp_path):
    write(tmp_path, *LEFT_BEHIND)
    with pytest.raises(UserError, match="has no images"):
        list(ImageFiles().below(tmp_path, UserError))


@pytest.fixture
def refused(monkeypatch):
    """Keep this process from listing folders of some names, which permissions cannot do to the
    superuser, who may run the tests.
    """
    scan = os.scandir
    names = set()

    def scandir(path):
        if str(path).rpartition("/")[2] in names:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return names


@pytest.fixture
def patients(tmp_path):
    for name in ("p1/a.jpg", "p2/b.jpg", "lost+found/c", ".Trash-1000/d"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    return tmp_path


def test_a_folder_that_may_not_be_listed_is_an_error(patients, refused):
    refused.add("p2")
    with pytest.raises(UserError, match=f"^{patients}/p2: cannot be listed .*let this user read"):
        find_images([str(patients)])


def test_folders_of_the_file_system_and_of_file_managers_need_not_be_listed(patients, refused):
    refused |= {"lost+found", ".Trash-1000"}
    assert [path.name for path in find_images([str(patients)]).paths] == ["a.jpg", "b.jpg"]


def test_links_to_folders_are_named(patients):
    (patients / "link").symlink_to("p1")
    listing = find_images([str(patients)])
    assert len(listing.paths) == 2
    assert f"left out 1 link to folders, whose targets you can name instead: {patients}/link" in (
        listing.note
    )


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 broken link, pipe or device: "), (2, "2 broken links, pipes or ")]
)
def test_entries_that_are_not_files_are_counted(patients, count, words):
    for number in range(count):
        (patients / f"{number}.png").symlink_to("nothing")
    assert f"left out {words}" in find_images([str(patients)]).note
