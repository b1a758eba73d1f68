"""A split of a data set together with how its images become inputs, and the memory that takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from trainer.config import DataConfig
from trainer.data.cache import ShardCache
from trainer.data.manifest import INDEX_EVERY, Split
from trainer.data.order import Segment, consecutive
from trainer.data.tfrecord import read_shard

WINDOWS_HELD = 3
"""Windows of encoded images that a stream holds at most: the one that is dealt, the next one, and
the next one's records in the order of the shard until they are shuffled."""

OVERHEAD_BYTES = 256 << 20
"""Bytes for read buffers, threads and what the allocator does not give back; measured by
benchmarks/data/memory.py."""

BATCHES_IN_FLIGHT = 2
"""Batches beside those kept ready: the one that is being filled and the one that is used."""


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


def input_memory(
    split: Split, config: DataConfig, ranks: int, batch_size: int, image_size: int
) -> int:
    """Bytes that a rank's training input holds at most, whatever the length of the data set.

    Args:
        split: what is read; its records count with their mean size.
        config: streams, window and batches kept ready.
        ranks: ranks that share the streams.
        batch_size: images of a rank's batch.
        image_size: height and width of an input, in pixels.
    """
    record = split.bytes / max(split.examples, 1)
    streams = -(-config.streams // ranks)
    window = min(config.shuffle_window, -(-split.examples // (streams * ranks)))
    batches = (
        (config.prefetch_batches + BATCHES_IN_FLIGHT) * batch_size * image_size * image_size * 3
    )
    return round(WINDOWS_HELD * streams * window * record + batches) + OVERHEAD_BYTES
