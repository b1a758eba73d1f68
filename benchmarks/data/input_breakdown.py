"""What the input costs besides decoding: its stages up to a decoder that does nothing.

Each stage does all that the one before does, so that a stage costs the difference. Nothing is
decoded, so that the noise of decoding, ten times as much, does not hide it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import tensorflow as tf

from benchmarks.measure import take_turns
from trainer.config import DataConfig
from trainer.data import images
from trainer.data.formats.record_format import LABEL, Values, record_format
from trainer.data.formats.tfrecord import READ_BUFFER
from trainer.data.manifest import load_manifest
from trainer.data.order import Segment
from trainer.data.pipeline import make_order, training_examples
from trainer.data.source import Source, decoded_at_once
from trainer.distributed.communicator import Alone
from trainer.distributed.launcher import keep_freed_memory
from trainer.presets import PRESETS

PIECE: Final = 100_000
"""Bytes that the plain reading takes from its buffer at a time: about a photograph."""


def measure(
    data: str, *, parquet: str | None, image_size: int, batch_size: int, threads: int, rounds: int
) -> dict[str, Any]:
    """Measure the stages in turns.

    Args:
        data: Folder of the data set.
        parquet: Folder of the same images in Parquet files, or None.
        image_size: Height and width of the input, in pixels.
        batch_size: Images per batch.
        threads: Images decoded at once.
        rounds: Number of turns of each stage.

    Returns:
        Samples of the stages, by the format of files.
    """
    keep_freed_memory()
    config = PRESETS["imagenet-1gpu"].data
    folders = {"TFRecord": data} | ({"Parquet": parquet} if parquet else {})
    return {
        name: take_turns(
            stages(_source(Path(folder), config, image_size), batch_size, threads),
            rounds,
            Alone(),
            settle=True,
        )
        for name, folder in folders.items()
    }


def stages(source: Source, batch_size: int, threads: int) -> dict[str, Callable[[], int]]:
    """Return the stages of a training split as contenders, each of about an epoch a turn."""
    examples = training_examples(source, 0, 1, 0)
    calls = decoded_at_once(threads)

    def size(_: tf.Tensor, values: Values) -> tf.Tensor:
        return tf.strings.length(values[0])

    def parsed(own: tf.Tensor, values: Values) -> tuple[tf.Tensor, ...]:
        encoded, label = source.format.parse(values, LABEL)
        return tf.strings.length(encoded), label, own

    def undecoded(own: tf.Tensor, encoded: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tf.strings.length(encoded), label, images.flips(source, own)

    def one_by_one(own: tf.Tensor, values: Values) -> tuple[tf.Tensor, ...]:
        each: tuple[tf.Tensor, ...] = tf.map_fn(
            lambda example: undecoded(*example),
            (own, *source.format.parse(values, LABEL)),
            parallel_iterations=2 * threads,
            fn_output_signature=(tf.int32, tf.int64, tf.bool),
        )
        return each

    def batches(stage: Callable[..., Any]) -> Callable[[], int]:
        options = tf.data.Options()
        options.autotune.enabled = False
        options.threading.private_threadpool_size = threads
        chunks = examples.map(stage, calls).rebatch(batch_size, drop_remainder=True)
        iterator = iter(chunks.with_options(options))
        return partial(_take, iterator, source.split.examples // batch_size, batch_size)

    return {
        "the bytes of the files": partial(_read_files, source),
        "records, verified, in the order of the files": partial(_read_in_order, source),
        "windows, shuffled": partial(_take, _windows(source), _streams(source), None),
        "strings of TensorFlow, one from each stream": batches(size),
        "parsed": batches(parsed),
        "one by one, mirrored or not": batches(one_by_one),
    }


def _source(folder: Path, config: DataConfig, image_size: int) -> Source:
    manifest = load_manifest(folder)
    split, classes = manifest.splits["train"], len(manifest.classes)
    layout = record_format(manifest)
    folder = manifest.folder(folder)
    return Source(folder, split, classes, image_size, config, 0, format=layout)


def _read_files(source: Source) -> int:
    for shard in source.split.shards:
        with (source.folder / shard.file).open("rb", buffering=READ_BUFFER) as file:
            while file.read(PIECE):
                continue
    return source.split.examples


def _read_in_order(source: Source) -> int:
    return sum(
        1
        for block, count in enumerate(source.counts)
        for _ in source.records(Segment(block, 0, count), source.origin(block))
    )


def _streams(source: Source) -> int:
    return make_order(source, 1).streams_per_rank


def _windows(source: Source) -> Iterator[list[Values]]:
    """Yield the next window of each stream in turn; the last one of each is held."""
    order = make_order(source, 1)
    reader, held = source.format.reader(order.streams_per_rank), dict[int, list[Values]]()
    streams = [order.endless_windows(0, turn, 0) for turn in range(order.streams_per_rank)]
    while True:
        for number, windows in enumerate(streams):
            window = next(windows)
            records = [
                record
                for segment in window.segments
                for record in source.records(segment, source.origin(segment.block), reader)
            ]
            held[number] = [records[index] for index in window.shuffle]
            yield held[number]


def _take(iterator: Iterator[Any], count: int, size: int | None) -> int:
    """Take some elements of `size` records each, or of as many as they have."""
    return sum(len(element) if size is None else size for element in islice(iterator, count))
