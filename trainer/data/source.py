"""A split of a data set together with how its images become inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from trainer.config import DataConfig
from trainer.data.manifest import Split
from trainer.data.order import Segment, consecutive


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
    """What the records call the first class."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Records in each shard."""
        return tuple(shard.examples for shard in self.split.shards)

    def segments(self, begin: int, end: int) -> Iterator[Segment]:
        """The records [begin, end) of the split in the order of its shards."""
        counts = self.counts
        return consecutive(counts, range(len(counts)), list(accumulate(counts)), begin, end - begin)

    def share(self, rank: int, ranks: int) -> range:
        """The consecutive records that a rank evaluates."""
        total = self.split.examples
        return range(total * rank // ranks, total * (rank + 1) // ranks)

    def locate(self, record: int) -> tuple[int, int]:
        """Shard, and index in it, of a record counted through the split."""
        segment = next(self.segments(record, record + 1))
        return segment.shard, segment.first
