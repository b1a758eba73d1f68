"""The order of examples: a pure function of seed, epoch and position. Standard library only.

Training reads one endless sequence of positions; the stretch [e n, (e + 1) n) is epoch e, a
permutation of the n records. Within an epoch:

1. The shards are permuted, and their records counted through in that order: 0 .. n - 1.
2. That count is cut into V streams of consecutive records, equal to within one record.
3. Each stream is cut into windows of W consecutive records, and each window is shuffled.
4. Position g is record g // V of stream g mod V: one from each stream in turn.

Rank r of N takes the positions that leave r when divided by N. N divides V, so these are whole
streams, and a rank reads the bytes of its own streams only. A step of global batch B takes the
positions [t B, (t + 1) B) whatever N is, so all world sizes that divide the requested number of
streams see identical global batches; for the others V is rounded up to a multiple of N. A run
resumes at any position by starting each stream at the window that holds it.
"""

import bisect
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True)
class Segment:
    """Consecutive records of one shard."""

    shard: int
    first: int
    count: int


@dataclass(frozen=True)
class Window:
    """Records read together: `segments` one after the other, then taken in the order of
    `shuffle`.
    """

    segments: tuple[Segment, ...]
    shuffle: tuple[int, ...]


@dataclass(frozen=True)
class Order:
    """How the records of one split are dealt to the ranks of one world."""

    counts: tuple[int, ...]
    """Records in each shard."""
    streams: int
    """Streams asked for; see `effective_streams`."""
    window: int
    seed: int
    ranks: int

    @property
    def examples(self) -> int:
        return sum(self.counts)

    @property
    def effective_streams(self) -> int:
        """V: the streams asked for, rounded up to a multiple of the ranks."""
        return -(-self.streams // self.ranks) * self.ranks

    @property
    def streams_per_rank(self) -> int:
        return self.effective_streams // self.ranks

    def shards(self, epoch: int) -> list[int]:
        """The shards in the order of an epoch."""
        permutation = list(range(len(self.counts)))
        _shuffle(permutation, f"{self.seed}/{epoch}")
        return permutation

    def rank_streams(self, rank: int, position: int) -> list[tuple[int, int]]:
        """Streams and their next records for a rank, in its reading order from a position on.

        Args:
            rank: the rank.
            position: first position of the endless sequence not yet read by all ranks.

        Returns:
            Pairs (stream, record of the stream). The rank reads one record from each in turn.
        """
        own = position + (rank - position) % self.ranks
        epoch = position // self.examples
        streams = []
        for turn in range(self.streams_per_rank):
            record, stream = divmod(
                own - epoch * self.examples + turn * self.ranks, self.effective_streams
            )
            streams.append((stream, record))
        return streams

    def windows(self, epoch: int, stream: int, record: int) -> Iterator[Window]:
        """The windows of a stream in an epoch from one of its records on; the first may be
        partial.
        """
        length, extra = divmod(self.examples, self.effective_streams)
        begin = stream * length + min(stream, extra)
        length += stream < extra
        shards = self.shards(epoch)
        ends = list(accumulate(self.counts[shard] for shard in shards))
        if record >= length:
            return
        for number in range(record // self.window, -(-length // self.window)):
            first = number * self.window
            size = min(self.window, length - first)
            shuffle = list(range(size))
            _shuffle(shuffle, f"{self.seed}/{epoch}/{stream}/{number}")
            yield Window(
                tuple(consecutive(self.counts, shards, ends, begin + first, size)),
                tuple(shuffle[max(record - first, 0) :]),
            )

    def shards_between(self, rank: int, position: int, end: int) -> list[int]:
        """The shards that a rank reads its positions from `position` to `end` from."""
        found: dict[int, None] = {}
        while position < end:
            epoch = position // self.examples
            turns = -(-(end - position) // self.effective_streams)
            for stream, record in self.rank_streams(rank, position):
                left = turns
                for window in self.windows(epoch, stream, record):
                    if left <= 0:
                        break
                    found.update((segment.shard, None) for segment in window.segments)
                    left -= len(window.shuffle)
            position = (epoch + 1) * self.examples
        return list(found)

    def locate(self, position: int) -> tuple[int, int]:
        """The shard and the record in it that stand at a position of the endless sequence."""
        epoch, within = divmod(position, self.examples)
        record, stream = divmod(within, self.effective_streams)
        window = next(self.windows(epoch, stream, record))
        index = window.shuffle[0]
        for segment in window.segments:
            if index < segment.count:
                return segment.shard, segment.first + index
            index -= segment.count
        raise IndexError(f"position {position} lies in no segment")


def consecutive(
    counts: Sequence[int], shards: Sequence[int], ends: Sequence[int], begin: int, size: int
) -> Iterator[Segment]:
    """The parts of shards that hold `size` records from `begin` on.

    Args:
        counts: records in each shard.
        shards: shards in the order in which their records are counted through.
        ends: running totals of their records in that order.
        begin: first record wanted.
        size: records wanted.
    """
    place = bisect.bisect_right(ends, begin)
    while size:
        first = begin - (ends[place] - counts[shards[place]])
        count = min(size, ends[place] - begin)
        if count:
            yield Segment(shards[place], first, count)
        begin, size, place = begin + count, size - count, place + 1


def _shuffle(items: list[int], key: str) -> None:
    """Permute in place by a text. Sorts by `random()`, whose values Python promises to keep."""
    source = random.Random(key)
    keys = [source.random() for _ in items]
    items.sort(key=lambda item: keys[item])
