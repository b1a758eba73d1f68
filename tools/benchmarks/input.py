"""CPU time of an image from shard to batch, compared with decoding alone and a textbook pipeline.

The lower bound, called floor, decodes and resizes the same crops of the same images to uint8, from
bytes that are in memory already: no files, no records, no shuffling, no batches. The textbook
pipeline reads the same shards with a shuffle buffer, decodes the whole image, resizes its short
side, crops, mirrors and normalises to float32 on the host.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import tensorflow as tf

from common.errors import UserError
from tools.benchmarks.measure import (
    BenchmarkOptions,
    Samples,
    ratio,
    read_samples,
    spread,
    table,
    take_turns,
)
from tools.benchmarks.processes import in_process
from trainer.config import DataConfig, NotNegative, Positive
from trainer.data import images
from trainer.data.builtin.synthetic import prepare_noise
from trainer.data.formats.record_format import LABEL, record_format
from trainer.data.formats.tfrecord import READ_BUFFER, TFRECORDS
from trainer.data.images import normalize
from trainer.data.manifest import load_manifest
from trainer.data.pipeline import training_batches, training_examples
from trainer.data.source import Source
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Alone
from trainer.distributed.launcher import keep_freed_memory
from trainer.presets import PRESETS

PIPELINE, PARQUET = "our pipeline", "ours, Parquet"
FLOOR, TEXTBOOK = "decode and resize alone", "textbook pipeline"
NOISE: Final = 1000
"""Images of the data set that is made if none is given."""
PHOTOS, COPIES = 1000, 3
"""Photographs of `--photos`, and how often each is in its data sets."""
BLOCKS: Final = 2
"""Processes among which the rounds are divided, one after the other."""
ABOVE_FLOOR: Final = 0.10
"""Largest acceptable CPU time of an image above decoding and resizing it alone, in milliseconds."""
OF_FLOOR, OF_TFRECORDS = 1.06, 1.05
"""Largest acceptable ratios: of our pipeline to decoding alone, and of Parquet to TFRecords."""
_IN_MEMORY = 2560
"""Images per turn of the floor."""
_SHUFFLED = 1024
"""Size of the textbook pipeline's shuffle buffer, in records."""
_RESIZED = 256
"""Short side to which the textbook pipeline resizes before it crops 224 pixels."""


@dataclass(frozen=True)
class Options(BenchmarkOptions):
    """CPU-milliseconds of an image from shard to batch, compared with decoding and resizing alone
    and with a textbook pipeline.
    """

    data: str | None = None
    """Folder of a data set; by default a temporary one of 1,000 images of noise."""

    parquet: str | None = None
    """Folder of the same images in Parquet files, described by `prepare parquet`."""

    photos: bool = False
    """Make 1,000 photographs as large as ImageNet's, and measure with data sets of three copies of
    each, as TFRecords and as Parquet files."""

    image_size: Annotated[int, Positive] = 224
    """Height and width of the input, in pixels."""

    batch_size: Annotated[int, Positive] = 64
    """Images per batch."""

    batches: Annotated[int, Positive] = 42
    """Batches per turn. Windows are read completely and ahead, so a turn should be about an epoch
    of a small data set; fewer batches would count too much or too little reading."""

    threads: Annotated[int, NotNegative] = 0
    """Images decoded at once; 0 is one per core."""

    rounds: Annotated[int, Positive] = 14
    """Number of turns of each contender, divided among two processes."""


def measure(options: Options) -> dict[str, Any]:
    """Measure the input pipeline of a data set."""
    if options.photos and (options.data or options.parquet):
        raise UserError("--photos: makes its own data sets; leave out those options")
    settings = options.settings() | {"threads": options.threads or cores()}
    del settings["photos"]
    settings["rounds"] = -(-options.rounds // BLOCKS)
    samples: dict[str, list[Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        if options.photos:
            settings |= _prepare_photos(Path(scratch))
        elif not options.data:
            settings["data"] = f"{scratch}/noise"
            prepare_noise(settings["data"], NOISE)
        for block in range(BLOCKS):
            print(f"process {block + 1} of {BLOCKS}", flush=True)
            result = in_process("tools.benchmarks.input:take_turns_in_process", **settings)
            for name, turns in result["samples"].items():
                samples.setdefault(name, []).extend(turns)
    bytes_per_image = result["bytes_per_image"]
    return {"samples": samples, "bytes_per_image": bytes_per_image, "threads": settings["threads"]}


def _prepare_photos(scratch: Path) -> dict[str, str]:
    """Prepare data sets of photographs; return them by the names of their options."""
    # A process that measures must not import pyarrow before it has chosen how Arrow keeps memory.
    from tools.benchmarks.photos import write_parquet, write_photos  # noqa: PLC0415

    photos = scratch / "photos"
    write_photos(photos, PHOTOS)
    for photo in list(photos.glob("*/*.jpg")):
        for copy in range(1, COPIES):
            os.link(photo, photo.with_stem(f"{photo.stem}-{copy}"))
    folders = {name: f"{scratch}/{name}" for name in ("data", "parquet")}
    _prepare("folder", "--input", str(photos), "--output", folders["data"])
    write_parquet(Path(folders["data"]), Path(folders["parquet"]))
    _prepare("parquet", "--input", folders["parquet"])
    return folders


def _prepare(*args: str) -> None:
    command = [sys.executable, "-m", "trainer", "prepare", *args]
    if subprocess.run(command, check=False).returncode:
        raise UserError("a data set could not be prepared; see the output above")


def show(data: Mapping[str, Any]) -> str:
    """Format the table."""
    return table(read_samples(data["samples"]), "image", [FLOOR, TEXTBOOK, PIPELINE])


def goals(data: Mapping[str, Any]) -> str:
    """Compare the results with the goals, and tell images/s."""
    samples = read_samples(data["samples"])
    lines = [
        f"our pipeline above decode and resize alone, CPU-ms an image: {above(samples)}; the goal"
        f" is at most {ABOVE_FLOOR:.2f}",
        f"our pipeline / decode and resize alone {ratio(samples, PIPELINE, FLOOR).text()}; the goal"
        f" is at most {OF_FLOOR}",
    ]
    if PARQUET in samples:
        lines.append(
            f"Parquet / TFRecords {ratio(samples, PARQUET, PIPELINE).text()}; the goal is at most"
            f" {OF_TFRECORDS}"
        )
    for name, rounds in samples.items():
        rate = spread([1000 / sample.wall_ms for sample in rounds])
        lines.append(f"with {data['threads']} threads, {name}: {rate.text('.0f')} images/s")
    return "\n".join([*lines, f"{data['bytes_per_image']:,} bytes an image to the device"])


def above(samples: Samples) -> str:
    """Return the CPU-ms of an image by our pipeline that exceed those of decoding, by round."""
    pairs = zip(samples[PIPELINE], samples[FLOOR], strict=True)
    return spread([ours.cpu_ms - floor.cpu_ms for ours, floor in pairs]).text()


def take_turns_in_process(
    data: str,
    *,
    parquet: str | None,
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
        image_size: Height and width of the input, in pixels.
        batch_size: Images per batch.
        batches: Batches per turn.
        threads: Images decoded at once.
        rounds: Number of turns of each contender.
    """
    keep_freed_memory()
    config = PRESETS["imagenet-1gpu"].data
    contenders = Contenders(data, config, image_size, batch_size, threads)
    turns: dict[str, Callable[[], int]] = {PIPELINE: contenders.pipeline(batches)}
    if parquet:
        other = Contenders(parquet, config, image_size, batch_size, threads)
        turns[PARQUET] = other.pipeline(batches)
    turns[FLOOR] = contenders.floor(batches * batch_size)
    turns[TEXTBOOK] = contenders.textbook(batches, image_size)
    return {
        "samples": take_turns(turns, rounds, Alone(), settle=True),
        "bytes_per_image": contenders.bytes_per_image,
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
        return self._taking(iter(self._dataset), batches)

    def _taking(self, iterator: Iterator[Any], batches: int) -> Callable[[], int]:
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
        return self._taking(iterator, batches)
