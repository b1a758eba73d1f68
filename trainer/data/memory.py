"""How much host memory the input of a rank can hold at most. Pure."""

from trainer.config import DataConfig
from trainer.data.manifest import Split

WINDOWS = 3
"""Windows of encoded images that a stream holds at most: the one that is dealt, the next one, and
the next one's records in the order of the shard until they are shuffled."""

KEPT = 256 << 20
"""Bytes for read buffers, threads and what the allocator does not give back; measured by
benchmarks/data/memory.py."""

IN_FLIGHT = 2
"""Batches beside those kept ready: the one that is being filled and the one that is used."""


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
    batches = (config.prefetch_batches + IN_FLIGHT) * batch_size * image_size * image_size * 3
    return round(WINDOWS * streams * window * record + batches) + KEPT
