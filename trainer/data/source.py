"""A split of a data set, how its images become inputs, and the memory that this takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Literal, TypeAlias

from trainer.config import DataConfig
from trainer.data.cache import ShardCache
from trainer.data.manifest import INDEX_EVERY, Split
from trainer.data.order import Segment, consecutive
from trainer.data.tfrecord import read_shard

WINDOWS_HELD = 3
"""Most windows of encoded images that a stream holds: the current one, the next one, and the
records of the next one in shard order until they are shuffled."""

OVERHEAD_BYTES = 256 << 20
"""Bytes for read buffers, threads and memory that the allocator does not return; measured by
benchmarks/data/memory.py."""

BATCHES_IN_FLIGHT = 2
"""Batches in addition to those kept ready: the one being filled and the one in use."""


TargetKind: TypeAlias = Literal["label", "mask"]
"""What a record holds beside its image: a class, or an image of the classes of its pixels."""


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
    """Label of the first class in the records."""
    cache: ShardCache | None = None
    """Cache of shards on this node, if there is one."""
    targets: TargetKind = "label"

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of records in each shard."""
        return tuple(shard.examples for shard in self.split.shards)

    def segments(self, begin: int, end: int) -> Iterator[Segment]:
        """Yield the segments of the records [begin, end) of the split, in the order of shards."""
        counts = self.counts
        return consecutive(counts, range(len(counts)), list(accumulate(counts)), begin, end - begin)

    def share(self, rank: int, ranks: int) -> range:
        """Return the consecutive records that a rank evaluates."""
        total = self.split.examples
        return range(total * rank // ranks, total * (rank + 1) // ranks)

    def locate(self, record: int) -> tuple[int, int]:
        """Return the shard, and the index in it, of a record counted through the split."""
        segment = next(self.segments(record, record + 1))
        return segment.shard, segment.first

    def origin(self, shard: int) -> Path:
        """Return the file of a shard in the data folder."""
        return self.folder / self.split.shards[shard].file

    def path(self, shard: int) -> Path:
        """Return the file to read a shard from: with a cache its copy, which may be made first."""
        if self.cache is None:
            return self.origin(shard)
        return self.cache.path(self.split.shards[shard])

    def records(self, segment: Segment, path: Path) -> Iterator[bytes]:
        """Yield the serialised records of a segment, read from a file of its shard without
        TensorFlow; fewer if the file ends early.

        Raises:
            BrokenRecordError: A record does not match its checksum.
            OSError: The file cannot be read.
        """
        skipped = segment.first % INDEX_EVERY
        records = read_shard(path, self.offset(segment))
        return islice(records, skipped, skipped + segment.count)

    def offset(self, segment: Segment) -> int:
        """Return the byte offset of the indexed record at or before a segment."""
        return self.split.shards[segment.shard].index[segment.first // INDEX_EVERY]


def input_memory(
    split: Split, config: DataConfig, ranks: int, batch_size: int, image_size: int
) -> int:
    """Return the most bytes that a rank's training input holds, whatever the data set's length.

    Args:
        split: Split to read; its records count with their mean size.
        config: Streams, window and batches kept ready.
        ranks: Number of ranks that share the streams.
        batch_size: Images of a rank's batch.
        image_size: Height and width of an input, in pixels.
    """
    record = split.bytes / max(split.examples, 1)
    streams = -(-config.streams // ranks)
    window = min(config.shuffle_window, -(-split.examples // (streams * ranks)))
    batches = (
        (config.prefetch_batches + BATCHES_IN_FLIGHT) * batch_size * image_size * image_size * 3
    )
    return round(WINDOWS_HELD * streams * window * record + batches) + OVERHEAD_BYTES
