"""The contenders of `input`: the shipped pipeline, a lower bound, and a textbook pipeline.

The lower bound, called floor, decodes and resizes the same crops of the same images to uint8, from
bytes that are in memory already: no files, no records, no shuffling, no batches. The textbook
pipeline reads the same shards with a shuffle buffer, decodes the whole image, resizes its short
side, crops, mirrors and normalises to float32 on the host.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.data.input_names import FLOOR, PARQUET, PIPELINE, REENCODED, TEXTBOOK
from benchmarks.data.reading import PeakMemory
from benchmarks.measure import take_turns
from trainer.config import DataConfig
from trainer.data import images
from trainer.data.formats.record_format import LABEL, record_format
from trainer.data.formats.tfrecord import READ_BUFFER, TFRECORDS
from trainer.data.images import normalize
from trainer.data.manifest import load_manifest
from trainer.data.pipeline import training_batches, training_examples
from trainer.data.source import Source
from trainer.distributed.communicator import Alone
from trainer.distributed.launcher import keep_freed_memory
from trainer.presets import PRESETS

_IN_MEMORY = 2560
"""Images per turn of the floor."""
_SHUFFLED = 1024
"""Size of the textbook pipeline's shuffle buffer, in records."""
_RESIZED = 256
"""Short side to which the textbook pipeline resizes before it crops 224 pixels."""


def measure(
    data: str,
    *,
    parquet: str | None,
    reencoded: str | None,
    as_shipped: bool,
    image_size: int,
    batch_size: int,
    batches: int,
    threads: int,
    rounds: int,
) -> dict[str, Any]:
    """Measure the contenders in turns with a data set.

    Args:
        data: Folder of the data set.
        parquet: Folder of the same images in Parquet files, for comparison.
        reencoded: Folder of the same images re-encoded, for comparison.
        as_shipped: Whether freed memory is kept, as in a rank. If it is returned as glibc does by
            default, only our pipeline and the lower bound are measured.
        image_size: Height and width of the input, in pixels.
        batch_size: Images per batch.
        batches: Batches per turn.
        threads: Images decoded at once.
        rounds: Number of turns of each contender.
    """
    if as_shipped:
        keep_freed_memory()
    config = PRESETS["imagenet-1gpu"].data
    contenders = Contenders(data, config, image_size, batch_size, threads)
    memory = PeakMemory()
    pipeline = contenders.pipeline(batches)
    pipeline()
    peak = memory.added()
    turns: dict[str, Callable[[], int]] = {PIPELINE: pipeline}
    if parquet:
        other = Contenders(parquet, config, image_size, batch_size, threads)
        turns[PARQUET] = other.pipeline(batches)
    turns[FLOOR] = contenders.floor(batches * batch_size)
    if as_shipped:
        turns[TEXTBOOK] = contenders.textbook(batches, image_size)
        if reencoded:
            other = Contenders(reencoded, config, image_size, batch_size, threads)
            turns[REENCODED] = other.pipeline(batches)
    return {
        "samples": take_turns(turns, rounds, Alone(), settle=True),
        "bytes_per_image": contenders.bytes_per_image,
        "peak_mib": peak,
    }


class Contenders:
    """The shipped pipeline, the floor and the textbook pipeline over a training split."""

    def __init__(
        self, folder: str, data: DataConfig, image_size: int, batch_size: int, threads: int
    ) -> None:
        manifest = load_manifest(Path(folder))
        split, classes = manifest.splits["train"], len(manifest.classes)
        self._source = Source(
            manifest.folder(Path(folder)),
            split,
            classes,
            image_size,
            data,
            seed=0,
            first_label=manifest.first_label,
            format=record_format(manifest),
        )
        self._batch_size, self._threads = batch_size, threads
        # One thread per image, as in the pipeline: splitting an image costs more than it saves.
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        self._dataset = training_batches(self._source, 0, 1, batch_size, 0, threads)

    @property
    def bytes_per_image(self) -> int:
        """Bytes per image that are sent to the device, including label and weight."""
        return sum(
            int(np.prod(spec.shape[1:])) * spec.dtype.size
            for spec in self._dataset.element_spec.values()
        )

    def pipeline(self, batches: int) -> Callable[[], int]:
        """Return a contender that takes some batches, from where its last turn ended."""
        iterator = iter(self._dataset)

        def work() -> int:
            for _ in range(batches):
                next(iterator)
            return batches * self._batch_size

        return work

    def floor(self, count: int) -> Callable[[], int]:
        """Return a contender that decodes and resizes the first images, which stay in memory."""
        count = min(count, _IN_MEMORY)
        examples = training_examples(self._source, 0, 1, 0).rebatch(count).take(1)
        positions, values = examples.get_single_element()
        encoded, _ = self._source.format.parse(values, LABEL)

        def decode(encoded: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
            def body(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                image = images.training_image(encoded[number], self._source, positions[number])
                # One pixel is enough to have the image computed.
                return number + 1, total + tf.cast(image[0, 0, 0], tf.int32)

            return tf.while_loop(
                lambda number, _: number < count,
                body,
                (tf.constant(0), tf.constant(0)),
                parallel_iterations=self._threads,
            )[1]

        graph = tf.function(decode, autograph=False)

        def work() -> int:
            graph(encoded, positions).numpy()
            return count

        return work

    def textbook(self, batches: int, image_size: int) -> Callable[[], int]:
        """Return a contender that takes some batches of a typical pipeline."""
        manifest = load_manifest(self._source.folder)
        normalization = manifest.normalization

        def decode(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            encoded, label = TFRECORDS.parse((serialized,), LABEL)
            image = tf.io.decode_jpeg(encoded, channels=3)
            shape = tf.cast(tf.shape(image)[:2], tf.float32)
            scale = tf.math.ceil(_RESIZED * shape / tf.reduce_min(shape))
            image = tf.image.resize(image, tf.cast(scale, tf.int32))
            image = tf.image.random_crop(image, [image_size, image_size, 3])
            return normalize(tf.image.random_flip_left_right(image), normalization), label

        shards = [str(self._source.folder / shard.file) for shard in self._source.split.shards]
        options = tf.data.Options()
        options.autotune.enabled = False
        options.threading.private_threadpool_size = self._threads
        options.threading.max_intra_op_parallelism = 1
        iterator = iter(
            tf.data.TFRecordDataset(shards, buffer_size=READ_BUFFER)
            .shuffle(_SHUFFLED)
            .repeat()
            .map(decode, num_parallel_calls=self._threads)
            .batch(self._batch_size, drop_remainder=True)
            .prefetch(2)
            .with_options(options)
        )

        def work() -> int:
            for _ in range(batches):
                next(iterator)
            return batches * self._batch_size

        return work
