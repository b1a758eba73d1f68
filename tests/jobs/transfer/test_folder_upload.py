"""Folders that are not uploaded, found before any request."""

from dataclasses import replace

import pytest

from jobs.transfer.local_files import LocalError, read_data_set
from tests.jobs.support.folders import write_shards
from trainer.data.manifest import load_manifest


def test_a_manifest_of_files_elsewhere_is_not_uploaded_without_them(tmp_path):
    whole = write_shards(tmp_path / "set")
    (tmp_path / "beside").mkdir()
    replace(load_manifest(whole), files=str(whole)).save(tmp_path / "beside")
    with pytest.raises(LocalError, match=f"refers to files in {whole}; prepare these without"):
        read_data_set(tmp_path / "beside")
    assert read_data_set(whole).manifest == load_manifest(whole)
