"""The data of a rank: batches from a position on, and the diagnosis of unreadable records."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.config import TrainConfig
from trainer.data.corruption import as_tensors, find_damage, read_image, read_record
from trainer.data.data_set import DataSet
from trainer.data.example import BrokenRecordError
from trainer.data.formats.record_format import record_format
from trainer.data.intake.groups import read_groups
from trainer.data.order import Begun
from trainer.data.pipeline import Batch, evaluation_batches, make_order, training_batches
from trainer.data.pixels.encoded_image import as_used
from trainer.data.reader import locator, unreadable
from trainer.data.source import CHUNK, Source, decoded_at_once
from trainer.data.targets import target_decoder
from trainer.distributed.communicator import Communicator
from trainer.errors import DataError

Array = np.ndarray[Any, Any]

DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
)
"""TensorFlow's errors when data cannot be read."""


class RankData:
    """The training and validation data of one rank."""

    def __init__(
        self,
        config: TrainConfig,
        data_set: DataSet,
        communicator: Communicator,
        threads: int,
    ) -> None:
        self._config, self._data_set, self._world = config, data_set, communicator
        self._threads = threads
        self._iterator: Any = None
        self._begun: Begun | None = None
        self._synthetic: Batch = {}

    @property
    def has_validation(self) -> bool:
        return self._data_set.manifest is not None

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Continue the epoch of a checkpoint in the order in which it was begun."""
        epoch, within = divmod(meta["position"], self._data_set.training_examples)
        if self._data_set.manifest is None or not within:
            return
        # Earlier versions stored no number of streams: it followed from the ranks alone.
        ranks = meta.get("ranks", self._world.size)
        earlier = make_order(self._source("train"), ranks).effective_streams
        self._begun = Begun(epoch, meta.get("epoch_streams", earlier))

    def to_meta(self, position: int) -> dict[str, Any]:
        """Return the state of an epoch's order for a checkpoint at a position."""
        if self._data_set.manifest is None:
            return {}
        order = make_order(self._source("train"), self._world.size)
        return {"epoch_streams": order.streams_in(position // order.examples)}

    def open(self, position: int) -> None:
        """Start reading at a position, the number of images that all ranks have read together."""
        config, world = self._config, self._world
        if self._data_set.manifest is None:
            size, classes = config.model.image_size, self._data_set.classes
            self._synthetic = synthetic_batch(
                config.rank_batch(world.size), size, classes, config.seed, self._config.task
            )
            return
        dataset = training_batches(
            self._source("train"),
            world.rank,
            world.size,
            config.rank_batch(world.size),
            position,
            self._threads,
        )
        if tf.config.get_visible_devices("GPU"):
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))
        self._iterator = iter(dataset)

    def next_batch(self) -> Batch:
        """Return the next batch; called inside a graph."""
        return self._synthetic if self._iterator is None else next(self._iterator)

    def validation(self) -> Iterator[Batch]:
        """Read the batches of this rank's share of the validation split.

        Raises:
            DataError: A record cannot be used; names shard, index and fault.
        """
        try:
            yield from self._validation
        except DATA_ERRORS as error:
            source = self._source("validation")
            self._explain(source, error, source.locate, self.validation_share)
            raise

    @cached_property
    def _validation(self) -> tf.data.Dataset:
        # Building them takes longer than beginning to read them, so evaluations share them.
        config, world = self._config, self._world
        size = config.evaluation.batch_size or config.batch_size
        source = self._source("validation")
        return evaluation_batches(source, world.rank, world.size, size, self._threads)

    @property
    def calibration(self) -> tf.data.Dataset:
        """Batches of training images as an evaluation would see them."""
        source, size = self._source("train"), self._config.batch_size
        return evaluation_batches(source, self._world.rank, self._world.size, size, self._threads)

    @property
    def validation_share(self) -> range:
        """Examples of the validation split in this rank's share."""
        return self._source("validation").share(self._world.rank, self._world.size)

    def validation_image(self, example: int) -> bytes:
        """Return the encoded image of an example of the validation split, as it is used.

        Raises:
            DataError: The example cannot be read.
            RejectedError: The image cannot be decoded.
        """
        source = self._source("validation")
        encoded = read_image(source, example)
        return as_used(encoded, source.levels) if source.split.treated else encoded

    def validation_groups(self, split: str = "validation") -> Array | None:
        """Return the group of each example of the validation split, int64; None if there are none.

        Args:
            split: The split that is read instead; see `DataSet.evaluating`.
        """
        groups, manifest = read_groups(self._data_set.folder), self._data_set.manifest
        names = groups.get(split)
        if manifest is None or len(names or ()) != manifest.splits["validation"].examples:
            return None
        return np.array(names)

    def validation_names(self) -> Iterator[str]:
        """Read the names of all records of the validation split, in its order.

        Raises:
            DataError: A record cannot be read.
        """
        source = self._source("validation")
        for segment in source.segments(0, source.split.examples):
            try:
                for values in source.records(segment, source.path(segment.block)):
                    yield source.format.record(values).filename
            except (BrokenRecordError, OSError) as error:
                where = source.where(segment.block, segment.first)
                raise DataError(f"{source.folder / where}: cannot be read ({error})") from error

    def validation_example(self, example: int) -> tuple[Array, Array]:
        """Return an example of the validation split as the network sees it: its image, uint8
        [size, size, 3], and its target.

        Raises:
            DataError: The example cannot be read.
        """
        source = self._source("validation")
        targets = target_decoder(self._config.task)
        parsed = targets.parse(as_tensors(source, read_record(source, example)), source)
        image, target = targets.evaluation(*parsed, source)
        return image.numpy(), target.numpy()

    def explain_training(self, error: Exception, position: int) -> None:
        """Raise an error that names the record that made a step fail, if one did.

        Args:
            error: Error of the step.
            position: Number of images that all ranks have used before the step.

        Raises:
            DataError: A record cannot be used; names shard, index and fault.
        """
        if self._iterator is None:
            return
        source, world, config = self._source("train"), self._world, self._config
        order = make_order(source, world.size)
        # The positions of the failed batch and of those decoded ahead of it.
        chunks = decoded_at_once(self._threads) + 1
        ahead = config.rank_batch(world.size) * (config.data.prefetch_batches + 3) + chunks * CHUNK
        first = position + (world.rank - position) % world.size
        positions = range(first, first + ahead * world.size, world.size)
        self._explain(source, error, locator(source, order), positions)

    def close(self) -> None:
        """Stop reading."""
        self._iterator = None

    def _explain(
        self,
        source: Source,
        error: Exception,
        locate: Callable[[int], tuple[int, int]],
        positions: Iterable[int],
    ) -> None:
        damage, remedy = unreadable(error), "copy or prepare the shard again"
        if damage is None:
            damage = find_damage(source, locate, positions)
            remedy = "leave such images out with --data.on-corrupt skip"
        if damage:
            raise DataError(
                f"{source.folder}: {damage} (found by rank {self._world.rank}). Repair the data"
                f" set, or {remedy}"
            ) from error

    def _source(self, split: str) -> Source:
        config, folder, manifest = self._config, self._data_set.folder, self._data_set.manifest
        assert manifest is not None
        assert folder is not None
        return Source(
            folder,
            manifest.splits[split],
            self._data_set.classes,
            config.model.image_size,
            config.data,
            config.seed,
            manifest.first_label,
            self._config.task,
            record_format(manifest),
            self._begun,
            manifest.levels,
            config,
        )


def synthetic_batch(
    batch_size: int, image_size: int, classes: int, seed: int, task: str = "classification"
) -> Batch:
    """Return one random batch, created on the device and kept there."""
    numbers = tf.random.Generator.from_seed(seed)
    shape = [batch_size, image_size, image_size, 3]
    return {
        "image": tf.cast(numbers.uniform(shape, 0, 256, tf.int32), tf.uint8),
        "target": target_decoder(task).random(numbers, batch_size, image_size, classes),
        "weight": tf.ones([batch_size]),
        "flip": tf.zeros([batch_size], tf.bool),
    }
