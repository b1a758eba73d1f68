"""The images below folders: all of them, or an error or a note that names those that are not."""

import errno
import os

import pytest

from common.errors import UserError
from common.image_files import find_images


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
