"""A split of a data set together with how its images become inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from trainer.config import DataConfig
from trainer.data.cache import ShardCache
from trainer.data.manifest import INDEX_EVERY, Split
from trainer.data.order import Segment, consecutive
from trainer.data.tfrecord import read_shard


@dataclass(frozen=True)
class Source:
    """One split in one folder."""

    folder: Path
    split: Split
    classes: int
    image_size: int
    config: DataConfig
    seed: int
    first_label: int = 0
    """What the records call the first class."""
    cache: ShardCache | None = None
    """Where copies of shards are kept on this node."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Records in each shard."""
        return tuple(shard.examples for shard in self.split.shards)

    def segments(self, begin: int, end: int) -> Iterator[Segment]:
        """The records [begin, end) of the split in the order of its shards."""
        counts = self.counts
        return consecutive(counts, range(len(counts)), list(accumulate(counts)), begin, end - begin)

    def share(self, rank: int, ranks: int) -> range:
        """The consecutive records that a rank evaluates."""
        total = self.split.examples
        return range(total * rank // ranks, total * (rank + 1) // ranks)

    def locate(self, record: int) -> tuple[int, int]:
        """Shard, and index in it, of a record counted through the split."""
        segment = next(self.segments(record, record + 1))
        return segment.shard, segment.first

    def origin(self, shard: int) -> Path:
        """The file of a shard in the data folder."""
        return self.folder / self.split.shards[shard].file

    def path(self, shard: int) -> Path:
        """The file to read a shard from: a copy of it if one is kept, which may be made first."""
        if self.cache is None:
            return self.origin(shard)
        return self.cache.path(self.split.shards[shard])

    def records(self, segment: Segment, path: Path) -> Iterator[bytes]:
        """The serialised records of a segment, read from a file of its shard without TensorFlow;
        fewer if the file ends early.

        Raises:
            BrokenRecordError: a record that does not fit its checksum.
            OSError: the file cannot be read.
        """
        skipped = segment.first % INDEX_EVERY
        records = read_shard(path, self.offset(segment))
        return islice(records, skipped, skipped + segment.count)

    def offset(self, segment: Segment) -> int:
        """The byte of a segment's shard where the indexed record at or before it begins."""
        return self.split.shards[segment.shard].index[segment.first // INDEX_EVERY]
