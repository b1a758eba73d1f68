"""A split of a data set, how its images become inputs, and the memory that this takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from trainer.config import DataConfig, TrainConfig
from trainer.data.formats.record_format import BrokenBlockError, RecordFormat, RecordReader, Values
from trainer.data.formats.tfrecord import TFRECORDS
from trainer.data.manifest import Shard, Split
from trainer.data.order import Begun, Segment, consecutive
from trainer.diagnostics.environment import cores

WINDOWS_HELD = 2
"""Most windows of encoded images that a stream holds: the current one and the next one."""

CHUNK = 32
"""Most records that are handed to tf.data, parsed and decoded together. A call of Python or of a
function of TensorFlow costs at least as much as copying a record, as it wakes a thread; but the
more records, the more are held and read ahead."""

CHUNKS_HELD = 4
"""Most chunks of records besides those being decoded: one in Python's memory and its copy, one
ready and the current one."""

OVERHEAD_BYTES = 256 << 20
"""Bytes for read buffers, threads and memory that the allocator does not return; measured, see
tools/benchmarks/results/memory.json."""

READS = 16
"""Number of streams that a rank reads ahead at the same time."""

THREADS_PER_CHUNK = 8
"""Threads that share a chunk: few enough that most have an image to decode until its end."""

BATCHES_IN_FLIGHT = 2
"""Batches in addition to those kept ready: the one being filled and the one in use."""


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
    task: str = "classification"
    """Task whose targets its records become."""
    format: RecordFormat = TFRECORDS
    begun: Begun | None = None
    """The epoch in which the run was resumed."""
    levels: tuple[float, float] | None = None
    """See `Manifest.levels`."""
    options: TrainConfig | None = None
    """The run, for options of its task; None outside of one."""

    @cached_property
    def blocks(self) -> tuple[tuple[Shard, int], ...]:
        """The blocks that the order permutes, each as its shard and its number in it; a `Segment`
        has an index into them.
        """
        return tuple(
            (shard, number)
            for shard in self.split.shards
            for number in range(len(self.format.blocks(shard)))
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of records in each block."""
        return tuple(count for shard in self.split.shards for count in self.format.blocks(shard))

    def segments(self, begin: int, end: int) -> Iterator[Segment]:
        """Yield the segments of the records [begin, end) of the split, in the order of shards."""
        counts = self.counts
        return consecutive(counts, range(len(counts)), list(accumulate(counts)), begin, end - begin)

    def share(self, rank: int, ranks: int) -> range:
        """Return the consecutive records that a rank evaluates."""
        total = self.split.examples
        return range(total * rank // ranks, total * (rank + 1) // ranks)

    def locate(self, record: int) -> tuple[int, int]:
        """Return the block, and the index in it, of a record counted through the split."""
        segment = next(self.segments(record, record + 1))
        return segment.block, segment.first

    def shard(self, block: int) -> Shard:
        """Return the shard that a block is in."""
        return self.blocks[block][0]

    def where(self, block: int, record: int, error: Exception | None = None) -> str:
        """Return the name of a record, or of the whole block if the error is of all its records."""
        shard, number = self.blocks[block]
        named = None if isinstance(error, BrokenBlockError) else record
        return f"{shard.file}, {self.format.where(number, named)}"

    def path(self, block: int) -> Path:
        """Return the file of a block."""
        return self.folder / self.shard(block).file

    def records(
        self, segment: Segment, path: Path, reader: RecordReader | None = None
    ) -> Iterator[Values]:
        """Yield the records of a segment, read from a file of its shard without TensorFlow; fewer
        if the file ends early.

        Raises:
            BrokenRecordError: A record does not match its checksum.
            OSError: The file cannot be read.
        """
        shard, number = self.blocks[segment.block]
        reader = reader or self.format.reader(1)
        return reader.records(str(path), shard, number, segment.first, segment.count)


def decoded_at_once(threads: int) -> int:
    """Return the number of chunks that are decoded at once, at least two: threads that find no
    more images in one continue with the next.
    """
    return max(2, -(-threads // THREADS_PER_CHUNK))


def input_memory(
    split: Split, config: DataConfig, ranks: int, batch_size: int, image_size: int
) -> int:
    """Return the most bytes of host memory that a rank's training input holds, whatever the data
    set's length. The batches that it copies to a GPU ahead are in the memory of the GPU.

    A rank has a share of the cores if no threads are chosen, at most all of this machine.

    Args:
        split: Split to read; its records count with their mean size.
        config: Streams, window, threads and batches kept ready.
        ranks: Number of ranks that share the streams.
        batch_size: Images of a rank's batch.
        image_size: Height and width of an input, in pixels.
    """
    record = split.bytes / max(split.examples, 1)
    streams = -(-config.streams // ranks)
    window = min(config.shuffle_window, -(-split.examples // (streams * ranks)))
    decoded = decoded_at_once(config.decode_threads or cores())
    pixels = (config.prefetch_batches + BATCHES_IN_FLIGHT) * batch_size + decoded * CHUNK
    held = WINDOWS_HELD * streams * window
    held += (CHUNKS_HELD + decoded) * min(CHUNK, held)
    if block := split.largest_block:
        # Each stream may keep a block. One that reads has the bytes of the file and those that they
        # are decoded to besides.
        held += streams * block + min(streams, READS) * 2 * block
    return round(held * record + pixels * image_size * image_size * 3) + OVERHEAD_BYTES
