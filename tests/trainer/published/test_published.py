"""Data sets that were written by the libraries with which such sets are published.

See write.py for how. `datasets` wrote the Parquet files as `push_to_hub` writes them, `webdataset`
the archives.
"""

import io
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.trainer.published.pictures import CLASSES, COUNTS, label, picture
from tests.trainer.support.data_sets.image_folders import records
from tests.trainer.support.data_sets.parquet_files import describe
from trainer.config import DataConfig
from trainer.data.formats.record_format import record_format
from trainer.data.manifest import load_manifest
from trainer.data.prepare.foreign.webdataset import prepare_webdataset
from trainer.data.prepare.options import PrepareWebdatasetOptions, VerifyOptions
from trainer.data.reader import read_segments
from trainer.data.source import Source
from trainer.data.verify import verify
from trainer.extras.parquet.format import Columns

HERE = Path(__file__).parent


@pytest.fixture
def parquet(tmp_path):
    return shutil.copytree(HERE / "parquet", tmp_path / "parquet")


def pixels(encoded: bytes) -> bytes:
    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB")).tobytes()


def wanted(split: str, count: int) -> list[tuple[bytes, int]]:
    return [(picture(split, n).tobytes(), label(split, n)) for n in range(count)]


def test_files_of_datasets_are_described_and_read_in_place(parquet):
    manifest = describe(parquet)
    assert manifest.classes == CLASSES
    assert Columns(**manifest.columns) == Columns("image", "label", "bytes")
    assert [len(split.shards) for split in manifest.splits.values()] == [12, 3]
    assert [shard.blocks for shard in manifest.splits["train"].shards[::6]] == [(4, 4, 3)] * 2
    assert all(len(shard.blocks) == 1 for shard in manifest.splits["validation"].shards)
    for name, split in manifest.splits.items():
        config = DataConfig(source="tfrecords", dir=".")
        source = Source(parquet, split, 4, 8, config, 3, format=record_format(manifest))
        stored = read_segments(source, source.segments(0, split.examples)).unbatch()
        found = [source.format.record(each) for each in stored.as_numpy_iterator()]
        assert [(pixels(r.encoded), r.label) for r in found] == wanted(name, COUNTS[name])
    verify(parquet, VerifyOptions(str(parquet), deep=True, processes=1))


def test_the_split_test_is_held_out_where_there_is_no_other(parquet):
    for path in (parquet / "data").glob("validation-*"):
        path.unlink()
    assert describe(parquet).splits["validation"].examples == COUNTS["test"]


def test_archives_of_webdataset_are_read(tmp_path):
    """Those to train on have labels of their own, the held-out ones in JSON."""
    options = PrepareWebdatasetOptions(
        input=(str(HERE / "tars"),), output=str(tmp_path / "out"), processes=1
    )
    prepare_webdataset(options, "the command")
    assert len(load_manifest(tmp_path / "out").classes) == len(CLASSES)
    for name in ("train", "validation"):
        found = Counter((pixels(r.encoded), r.label) for r in records(tmp_path / "out", name))
        assert found == Counter(wanted(name, COUNTS[name] // 3))
