"""Measurements that a process makes of its own reading; each function runs in a new process."""

import os
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import psutil
import tensorflow as tf

from benchmarks.processes import hand_back_and_exit
from trainer.config import DataConfig
from trainer.data.builtin.synthetic import noise_records, prepare_noise
from trainer.data.example import Record, to_example
from trainer.data.formats.tfrecord import ShardWriter, shard_name, write_split
from trainer.data.manifest import Shard, Split, load_manifest
from trainer.data.order import Order
from trainer.data.pipeline import make_order, training_batches, training_examples
from trainer.data.source import Source, input_memory
from trainer.diagnostics.environment import cores
from trainer.distributed.launcher import keep_freed_memory

STREAMS, WINDOW, BATCH, SIZE = 16, 32, 32, 224
"""Streams, window, batch size and image size of the epoch whose memory is measured."""
DIFFERENT: Final = 64
"""Number of distinct images, which the data set of that epoch repeats."""
EXAMPLES, SHARDS = 1_281_167, 1024
"""Number of training images of ImageNet, and number of shards."""


class PeakMemory:
    """Peak memory of this process since this object was created."""

    def __init__(self) -> None:
        self.before = _status("VmRSS")
        # Writing 5 resets the peak: proc_pid_clear_refs(5).
        Path("/proc/self/clear_refs").write_text("5")

    def added(self) -> float:
        """Return the peak in MiB above the memory at the start."""
        return _status("VmHWM") - self.before


def write_noise(folder: str, images: int) -> None:
    """Write a data set of noise that costs as much to read as photographs."""
    prepare_noise(folder, images)


def epoch_memory(images: int) -> dict[str, float]:
    """Write a data set, read an epoch of it as a rank does, and return the memory of reading, in
    MiB.
    """
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        records = list(islice(cycle(noise_records(DIFFERENT, 0)), DIFFERENT))
        split = write_split(
            Path(folder), "train", [records[n % DIFFERENT] for n in range(images)], 8, 10
        )
        config = DataConfig(dir=folder, streams=STREAMS, shuffle_window=WINDOW)
        source = Source(Path(folder), split, 10, SIZE, config, seed=0)
        batches = iter(training_batches(source, 0, 1, BATCH, 0, threads=2))
        memory = PeakMemory()
        for _ in range(images // BATCH):
            next(batches)
        bound = input_memory(split, config, 1, BATCH, SIZE)
        return {"mib": memory.added(), "bound_mib": bound / 2**20}


def batch_rate(
    data: str, image_size: int, batch_size: int, batches: int, streams: int, window: int
) -> None:
    """Read some batches of a data set: seconds to the first, rate and CPU time of the others."""
    manifest = load_manifest(Path(data))
    config = DataConfig(dir=data, streams=streams, shuffle_window=window)
    split, classes = manifest.splits["train"], len(manifest.classes)
    source = Source(Path(data), split, classes, image_size, config, 0)
    begin = time.perf_counter()
    iterator = iter(training_batches(source, 0, 1, batch_size, 0, cores()))
    next(iterator)
    first = time.perf_counter() - begin
    # Batches that were decoded ahead before the clock started.
    for _ in range(config.prefetch_batches + 2):
        next(iterator)
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(batches):
        next(iterator)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    images = batches * batch_size
    # Ending the iterator would wait for windows that nobody needs any more.
    hand_back_and_exit(
        {
            "first_batch_seconds": first,
            "images_per_second": images / seconds,
            "cpu_ms_per_image": 1000 * cpu / images,
        }
    )


def first_record(ranks: int, position: float, payload: int, scratch: str | None) -> None:
    """Resume rank 0 of a world: measure the seconds to its first record, and the bytes read until
    nothing more is read ahead.

    Args:
        ranks: Number of ranks that share the data set.
        position: Fraction of the epoch that is done.
        payload: Bytes per image.
        scratch: Folder for the data set; None is the system's for temporary files.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        source = write_long_set(Path(folder), payload)
        start = int(EXAMPLES * position)
        tf.data.Dataset.range(1).get_single_element()
        before = bytes_read()
        begin = time.perf_counter()
        iterator = iter(training_examples(source, 0, ranks, start))
        next(iterator)
        seconds = time.perf_counter() - begin
        read = _settled() - before
        ahead = records_ahead(make_order(source, ranks), start)
        size = source.split.bytes / source.split.examples
    # Ending the iterator would wait for what is being read.
    hand_back_and_exit({"seconds": seconds, "bytes": read, "bytes_of_two_windows": ahead * size})


def waiting(nodes: int, payload: int, batch: int, batches: int, images_per_second: int) -> None:
    """Read as one node of a training does, and measure how long the training waits.

    Args:
        nodes: Number of nodes that share the data set.
        payload: Bytes per image.
        batch: Records that the node uses at once.
        batches: Batches to read; the first is timed on its own.
        images_per_second: Records that the training uses per second.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = write_long_set(Path(folder), payload)
        tf.data.Dataset.range(1).get_single_element()
        begin = time.perf_counter()
        records = training_examples(source, 0, nodes, 0).rebatch(batch).prefetch(2)
        iterator = iter(records)
        next(iterator)
        first = time.perf_counter() - begin
        waits = []
        for _ in range(batches - 1):
            # The GPUs train on the batch before.
            time.sleep(batch / images_per_second)
            asked = time.perf_counter()
            next(iterator)
            waits.append(time.perf_counter() - asked)
        trained = (batches - 1) * batch / images_per_second
    # Ending the iterator would wait for what is being read.
    hand_back_and_exit(
        {
            "first_seconds": first,
            "waited_seconds": sum(waits),
            "longest_seconds": max(waits),
            "waited_share": sum(waits) / (sum(waits) + trained),
        }
    )


def write_long_set(folder: Path, payload: int) -> Source:
    """Write shards with ImageNet's number of records, all of them links to one of two files.

    Args:
        folder: Folder to write.
        payload: Bytes per image.
    """
    short, longer = EXAMPLES // SHARDS, EXAMPLES % SHARDS
    written = {length: _write_shard(folder, length, payload) for length in (short, short + 1)}
    shards = []
    for number in range(SHARDS):
        original = written[short + (number < longer)]
        name = shard_name("train", number, SHARDS)
        os.link(folder / original.file, folder / name)
        shards.append(
            Shard(name, original.examples, original.bytes, original.xxh128, original.offsets)
        )
    split = Split(tuple(shards), (EXAMPLES,), ("JPEG",))
    return Source(folder, split, 1, 224, DataConfig(dir=str(folder)), 0)


def records_ahead(order: Order, position: int) -> int:
    """Return the number of records in the first two windows of each of rank 0's streams."""
    return sum(
        segment.count
        for turn in range(order.streams_per_rank)
        for window in islice(order.endless_windows(0, turn, position), 2)
        for segment in window.segments
    )


def bytes_read() -> int:
    """Return the bytes that this process has read so far."""
    return int(psutil.Process().io_counters().read_chars)


def _write_shard(folder: Path, length: int, payload: int) -> Shard:
    serialized = to_example(Record(bytes(payload), "JPEG", 1, 1, 0, "0", "0.jpg"))
    with ShardWriter(folder / f"of-{length}.tfrecord") as writer:
        for _ in range(length):
            writer.write(serialized)
    return writer.shard()


def _settled() -> int:
    """Wait until little was read for half a second, and return the bytes read."""
    before, now = -1, bytes_read()
    while now - before > 1 << 16:
        time.sleep(0.5)
        before, now = now, bytes_read()
    return now


def _status(field: str) -> float:
    """Return a field of this process's status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024
