"""What holds of the order of records in files of every format, whatever their blocks are.

tests/trainer/data/test_order.py has the properties of the order itself; these are of the records
that are read.
"""

import tempfile
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.support.data_sets.parquet_files import table
from tests.trainer.support.data_sets.records import plain_record
from tests.trainer.support.data_sets.sequence import images_read
from trainer.config import DataConfig
from trainer.data.example import Record
from trainer.data.formats.record_format import RecordFormat
from trainer.data.formats.tfrecord import TFRECORDS, write_shard
from trainer.data.manifest import Shard, Split, SplitCounts
from trainer.data.pipeline import make_order
from trainer.data.source import Source
from trainer.extras.parquet.format import Columns, ParquetFormat

PARQUET = ParquetFormat(Columns("image", "label", "bytes"))
FORMATS = {"tfrecord": TFRECORDS, "parquet": PARQUET}


@cache
def records() -> list[Record]:
    return [plain_record(number, number % 3) for number in range(400)]


@dataclass(frozen=True)
class Case:
    """A split, a world that reads it, and where it resumes."""

    files: list[list[int]]
    """Records of each row group of each file; a TFRecord file has all of its file."""
    streams: int
    window: int
    seed: int
    ranks: int
    resumed: float
    """Position of the resume, as a fraction of two epochs."""


@st.composite
def cases(draw):
    # More than 64 in some, because a TFRecord file can be entered at every 64th.
    parts = st.lists(st.sampled_from([1, 2, 5, 9, 30, 70]), min_size=1, max_size=3)
    ranks = draw(st.sampled_from([1, 2, 4]))
    return Case(
        files=draw(
            st.lists(parts, min_size=1, max_size=3).filter(lambda f: sum(map(sum, f)) < 160)
        ),
        streams=ranks * draw(st.integers(1, 3)) if ranks > 2 else draw(st.sampled_from([2, 4])),
        window=draw(st.sampled_from([1, 3, 7, 40])),
        seed=draw(st.integers(0, 2**31 - 1)),
        ranks=ranks,
        resumed=draw(st.floats(0, 1)),
    )


def write_parquet(path: Path, parts: list[list[Record]]) -> None:
    with pq.ParquetWriter(path, table(parts[0]).schema) as writer:
        for part in parts:
            writer.write_table(table(part))


def write(folder: Path, files: list[list[int]], layout: RecordFormat) -> Split:
    """Write the first records in order, and return the split that the files are."""
    left, shards = iter(records()), list[Shard]()
    for number, sizes in enumerate(files):
        parts = [[next(left) for _ in range(size)] for size in sizes]
        path = folder / f"train-{number}"
        if layout is PARQUET:
            write_parquet(path, parts)
        else:
            write_shard(path, list(chain.from_iterable(parts)), SplitCounts.empty(3))
        scan = layout.scan(str(path), path.name)
        assert not any(stored.fault for stored in scan)
        shards.append(scan.shard())
    return Split(tuple(shards), (), ("PNG",))


def source_of(folder: Path, case: Case, layout: RecordFormat) -> Source:
    config = DataConfig(
        source="tfrecords", dir=".", streams=case.streams, shuffle_window=case.window
    )
    return Source(folder, write(folder, case.files, layout), 3, 8, config, case.seed, format=layout)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=6, deadline=None)
@given(case=cases())
def test_any_world_resumed_anywhere_reads_the_one_sequence_with_every_record_once_an_epoch(
    name, case
):
    with tempfile.TemporaryDirectory() as folder:
        source = source_of(Path(folder), case, FORMATS[name])
        n = source.split.examples
        whole = images_read(source, 1, 0, 2 * n)
        everything = sorted(record.encoded for record in records()[:n])
        assert sorted(whole[:n]) == sorted(whole[n:]) == everything
        position = round(case.resumed * (2 * n - 1))
        assert images_read(source, case.ranks, position, 2 * n - position) == whole[position:]


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(case=cases())
def test_a_row_group_stands_where_a_shard_stands(case):
    """TFRecord files with the records of one row group each are read in the same order."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t").mkdir()
        ours = source_of(Path(folder), case, PARQUET)
        files = [[size] for sizes in case.files for size in sizes]
        theirs = source_of(Path(folder) / "t", Case(**{**vars(case), "files": files}), TFRECORDS)
        assert ours.counts == theirs.counts
        n = ours.split.examples
        assert images_read(ours, case.ranks, 0, 2 * n) == images_read(theirs, case.ranks, 0, 2 * n)


@settings(max_examples=15, deadline=None)
@given(case=cases())
def test_all_ranks_together_read_a_row_group_once_an_epoch_but_where_two_streams_meet(case):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        source, reads = source_of(Path(folder), case, PARQUET), []
        group = ParquetFormat.read
        patch.setattr(
            ParquetFormat,
            "read",
            lambda self, path, part, **options: (
                reads.append((path, part)) or group(self, path, part, **options)
            ),
        )
        order = make_order(source, case.ranks)
        for rank in range(case.ranks):
            kept = source.format.reader(order.streams_per_rank)
            for stream, first in order.rank_streams(rank, 0):
                for window in order.windows(0, stream, first):
                    for segment in window.segments:
                        list(source.records(segment, source.path(segment.block), kept))
        assert set(reads) == {
            (str(Path(folder) / shard.file), part) for shard, part in source.blocks
        }
        assert len(reads) <= len(source.counts) + order.effective_streams - 1
