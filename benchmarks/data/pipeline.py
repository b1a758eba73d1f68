"""What reading, decoding and augmenting an image costs, beside the floor under it and beside what
most would write.

The floor is the same crops of the same images decoded and resized to uint8, from bytes that are in
memory already: no files, no records, no shuffling, no batches. The textbook pipeline reads the same
shards with a shuffle buffer, decodes the whole image, resizes its short side, crops, mirrors and
normalises to float32 on the host.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer.config import DataConfig
from trainer.data import images
from trainer.data.images import normalize
from trainer.data.manifest import load_manifest
from trainer.data.pipeline import training_batches, training_examples
from trainer.data.reader import READ_BUFFER, parse
from trainer.data.source import Source

_IN_MEMORY = 2560
"""Images of the floor's turn."""
_SHUFFLED = 1024
"""Records in the textbook pipeline's buffer."""
_RESIZED = 256
"""Pixels of the textbook pipeline's short side, of which it crops 224."""


class Contenders:
    """The shipped pipeline, its floor and a textbook's over the training split of a data set."""

    def __init__(
        self, folder: str, data: DataConfig, image_size: int, batch_size: int, threads: int
    ) -> None:
        manifest = load_manifest(Path(folder))
        split, classes = manifest.splits["train"], len(manifest.classes)
        self._source = Source(
            Path(folder), split, classes, image_size, data, seed=0, first_label=manifest.first_label
        )
        self._batch_size, self._threads = batch_size, threads
        # As in the pipeline, one thread an image: to split one's work costs more than it saves.
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
        self._dataset = training_batches(self._source, 0, 1, batch_size, 0, threads)

    @property
    def bytes_per_image(self) -> int:
        """What an image costs on the way to the device, label and weight included."""
        return sum(
            int(np.prod(spec.shape[1:])) * spec.dtype.size
            for spec in self._dataset.element_spec.values()
        )

    def pipeline(self, batches: int) -> Callable[[], int]:
        """Take some batches, from where the last turn ended; returns the images."""
        iterator = iter(self._dataset)

        def work() -> int:
            for _ in range(batches):
                next(iterator)
            return batches * self._batch_size

        return work

    def floor(self, count: int) -> Callable[[], int]:
        """Decode and resize the first images of the order, which all stay in memory."""
        count = min(count, _IN_MEMORY)
        examples = training_examples(self._source, 0, 1, 0).take(count).batch(count)
        places, serialized = examples.get_single_element()
        encoded = tf.stack([parse(record)[0] for record in serialized])

        def decode(encoded: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
            def body(number: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                image = images.training_image(encoded[number], self._source, places[number])
                # One pixel is enough to have the image made.
                return number + 1, total + tf.cast(image[0, 0, 0], tf.int32)

            return tf.while_loop(
                lambda number, _: number < count,
                body,
                (tf.constant(0), tf.constant(0)),
                parallel_iterations=self._threads,
            )[1]

        graph = tf.function(decode, autograph=False)

        def work() -> int:
            graph(encoded, places).numpy()
            return count

        return work

    def textbook(self, batches: int, image_size: int) -> Callable[[], int]:
        """Take some batches as many pipelines make them."""
        manifest = load_manifest(self._source.folder)
        normalization = manifest.normalization

        def decode(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            encoded, label = parse(serialized)
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


class PeakMemory:
    """The most memory that this process held since this object was made."""

    def __init__(self) -> None:
        self.before = _status("VmRSS")
        # 5 resets the peak: proc_pid_clear_refs(5).
        Path("/proc/self/clear_refs").write_text("5")

    def added(self) -> float:
        """MiB above what was held at the start."""
        return _status("VmHWM") - self.before


def _status(field: str) -> float:
    """MiB of a field of this process's status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024
