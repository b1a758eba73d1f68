"""The images below a folder, without those that file managers leave behind."""

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
