"""A mount shows what others write only when it lists its folder again."""

import pytest

from rehearsal.blob_storage.blobs import BlobPath
from rehearsal.blob_storage.folder_sync import FolderMirror


@pytest.fixture
def mount(azure, results, tmp_path):
    def make(seconds):
        path = BlobPath("teststore", "results", "mounted")
        mirror = FolderMirror(azure.blobs, path, tmp_path, listing_seconds=seconds)
        mirror.fill()
        return mirror

    yield make
    for name in list(results.list_blob_names(name_starts_with="mounted/")):
        results.delete_blob(name)


def test_new_blobs_appear_and_deleted_ones_go(mount, results, tmp_path):
    mirror = mount(0.0)
    results.upload_blob("mounted/a", b"1")
    mirror.pull()
    assert (tmp_path / "a").read_bytes() == b"1"
    results.delete_blob("mounted/a")
    mirror.pull()
    assert not (tmp_path / "a").exists()
    mirror.push()
    assert list(results.list_blob_names(name_starts_with="mounted/")) == []


def test_a_cached_listing_hides_new_blobs(mount, results, tmp_path):
    mirror = mount(3600.0)
    results.upload_blob("mounted/b", b"1")
    mirror.pull()
    assert list(tmp_path.iterdir()) == []


def test_what_the_job_writes_and_deletes_stays_its_own(mount, results, tmp_path):
    mirror = mount(0.0)
    (tmp_path / "mine").write_bytes(b"1")
    mirror.pull()
    mirror.push()
    assert results.download_blob("mounted/mine").readall() == b"1"
    (tmp_path / "mine").write_bytes(b"22")
    results.upload_blob("mounted/mine", b"3", overwrite=True)
    mirror.pull()
    assert (tmp_path / "mine").read_bytes() == b"22"
    (tmp_path / "mine").unlink()
    mirror.pull()
    assert not (tmp_path / "mine").exists()
    mirror.push()
    assert list(results.list_blob_names(name_starts_with="mounted/")) == []
