"""What a rank trains on: batches from a position on, and the name of what is wrong with them."""

from typing import Any

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.data.builtin.synthetic import synthetic_batch
from trainer.data.cache import ShardCache, open_cache
from trainer.data.corruption import find_damage, read_image
from trainer.data.manifest import Manifest
from trainer.data.pipeline import Batch, evaluation_batches, make_order, training_batches
from trainer.data.retry import unreadable
from trainer.data.source import Source
from trainer.distributed.horovod import Communicator
from trainer.errors import DataError
from trainer.training.setup import Prepared


class Feed:
    """The training and validation data of one rank."""

    def __init__(
        self, config: TrainConfig, prepared: Prepared, communicator: Communicator, threads: int
    ) -> None:
        self._config, self._prepared, self._world = config, prepared, communicator
        self._threads = threads
        self._iterator: Any = None
        self._synthetic: Batch = {}
        self._cache = self._open_cache()

    @property
    def has_validation(self) -> bool:
        return self._prepared.manifest is not None

    def open(self, batches: int) -> None:
        """Start reading after so many global batches."""
        config, world = self._config, self._world
        if self._prepared.manifest is None:
            size, classes = config.model.image_size, self._prepared.classes
            self._synthetic = synthetic_batch(config.batch_size, size, classes, config.seed)
            return
        position = batches * self._prepared.plan.global_batch
        dataset = training_batches(
            self._source("train"),
            world.rank,
            world.size,
            config.batch_size,
            position,
            self._threads,
        )
        self._fill_cache(position)
        if tf.config.get_visible_devices("GPU"):
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0", 2))
        self._iterator = iter(dataset)

    def next_batch(self) -> Batch:
        """The next batch, inside a graph."""
        return self._synthetic if self._iterator is None else next(self._iterator)

    def validation(self) -> tf.data.Dataset:
        """This rank's share of the validation split."""
        config, world = self._config, self._world
        size = config.evaluation.batch_size or config.batch_size
        source = self._source("validation")
        return evaluation_batches(source, world.rank, world.size, size, self._threads)

    @property
    def validation_share(self) -> range:
        """The examples of the validation split that are this rank's."""
        return self._source("validation").share(self._world.rank, self._world.size)

    def validation_image(self, example: int) -> bytes:
        """The encoded image of an example of the validation split.

        Raises:
            DataError: it cannot be read.
        """
        return read_image(self._source("validation"), example)

    def explain_training(self, error: Exception, batches: int) -> None:
        """Name the record that made a step fail, if one did.

        Args:
            error: the failure.
            batches: global batches used before it.

        Raises:
            DataError: with the shard, the index and the fault.
        """
        if self._iterator is None:
            return
        source, world, config = self._source("train"), self._world, self._config.data
        self._raise_unreadable(source, error)
        order, batch = make_order(source, world.size), self._prepared.plan.global_batch
        position = batches * batch
        # What the failed batch and those decoded ahead of it have asked for.
        ahead = batch * (config.prefetch_batches + 3) + self._threads * world.size
        first = position + (world.rank - position) % world.size
        places = range(first, position + ahead, world.size)
        damage = find_damage(source, order.locate, places)
        self._raise(source, damage, "leave such images out with --data.on-corrupt skip", error)

    def explain_validation(self, error: Exception) -> None:
        """Name the record that made an evaluation fail, if one did; as `explain_training`."""
        source = self._source("validation")
        self._raise_unreadable(source, error)
        damage = find_damage(source, source.locate, self.validation_share)
        self._raise(source, damage, "leave such images out with --data.on-corrupt skip", error)

    def close(self) -> None:
        """End what goes on in the background."""
        self._iterator = None
        if self._cache is not None:
            self._cache.close()

    def _raise_unreadable(self, source: Source, error: Exception) -> None:
        self._raise(source, unreadable(error), "copy or prepare the shard again", error)

    def _raise(self, source: Source, damage: str | None, remedy: str, error: Exception) -> None:
        if damage:
            raise DataError(
                f"{source.folder}: {damage} (found by rank {self._world.rank}). Mend the data set,"
                f" or {remedy}"
            ) from error

    def _open_cache(self) -> ShardCache | None:
        manifest, folder = self._prepared.manifest, self._prepared.folder
        cache_dir = self._config.data.cache_dir
        if manifest is None or folder is None or cache_dir is None:
            return None
        return open_cache(cache_dir, manifest, folder, chief=self._world.local_rank == 0)

    def _fill_cache(self, position: int) -> None:
        """Have one rank of each node copy what its ranks read next, then everything else."""
        world, manifest = self._world, self._prepared.manifest
        if self._cache is None or manifest is None or world.local_rank:
            return
        source = self._source("train")
        # Launchers fill one node after the other; where one does not, the order alone is worse.
        ranks = range(world.rank, world.rank + world.local_size)
        ahead = make_order(source, world.size).shards_ahead(ranks, position)
        others = [split for name, split in manifest.splits.items() if name != "train"]
        self._cache.fill(
            [
                *(source.split.shards[shard] for shard in ahead),
                *(shard for split in others for shard in split.shards),
            ]
        )

    def _source(self, split: str) -> Source:
        manifest: Manifest | None = self._prepared.manifest
        assert manifest is not None
        assert self._prepared.folder is not None
        config = self._config
        return Source(
            self._prepared.folder,
            manifest.splits[split],
            self._prepared.classes,
            config.model.image_size,
            config.data,
            config.seed,
            manifest.first_label,
            self._cache,
        )
