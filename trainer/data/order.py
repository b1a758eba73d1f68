"""The order of examples: a pure function of seed, epoch and position. Standard library only.

Training reads one endless sequence of positions; the stretch [e n, (e + 1) n) is epoch e, a
permutation of the n records. Within an epoch:

1. The blocks, each a whole file or a part that is read at once, are permuted, and their records
   counted through in that order: 0 .. n - 1.
2. That count is cut into V streams of consecutive records, equal to within one record.
3. Each stream is cut into windows of W consecutive records, and each window is shuffled.
4. Position g is record g // V of stream g mod V: one from each stream in turn.

Rank r of N takes the positions that leave r when divided by N. N divides V, so these are whole
streams, and a rank reads the bytes of its own streams only. A step of global batch B takes the
positions [t B, (t + 1) B) whatever N is, so all world sizes that divide the requested number of
streams see identical global batches; for the others V is rounded up to a multiple of N. After a
roll-back t also counts the batches that were skipped. A run resumes at any position by starting
each stream at the window that holds it. `--imbalance.by sampling` draws records in another order:
see `data/imbalance/sampling.py`.

An epoch keeps the V with which it was begun, so that each record is read exactly once in it even if
a run resumes with an N that does not divide V. Until the epoch ends, a rank then reads windows that
it shares with others: its positions visit V / gcd(V, N) streams in turn, and of the records of each
it takes every N / gcd(V, N)-th.
"""

import bisect
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from math import gcd


@dataclass(frozen=True)
class Segment:
    """Consecutive records of one block."""

    block: int
    first: int
    count: int


@dataclass(frozen=True)
class Window:
    """Records read together: `segments` one after the other, then returned in the order of
    `shuffle`.
    """

    segments: tuple[Segment, ...]
    shuffle: tuple[int, ...]
    key: str = ""
    """Names the whole window, of which this may be a part; the shuffle depends on it."""

    def locate(self, index: int) -> tuple[int, int]:
        """Return the block, and the record in it, of a record of the window."""
        for segment in self.segments:
            if index < segment.count:
                return segment.block, segment.first + index
            index -= segment.count
        raise IndexError(f"record {index} is in no segment")


@dataclass(frozen=True)
class Begun:
    """An epoch that may have been begun by another number of ranks."""

    epoch: int
    streams: int
    """V of its order; see `Order.streams_in`."""


@dataclass(frozen=True)
class Order:
    """How the records of one split are dealt to the ranks of one world."""

    counts: tuple[int, ...]
    """Records in each block."""
    streams: int
    """Requested number of streams; see `effective_streams`."""
    window: int
    seed: int
    ranks: int
    begun: Begun | None = None
    """The epoch in which the run was resumed; None if all epochs are those of this world."""

    @property
    def examples(self) -> int:
        return sum(self.counts)

    @property
    def effective_streams(self) -> int:
        """V of the epochs that this world begins: the requested streams, rounded up to a multiple
        of the ranks.
        """
        return -(-self.streams // self.ranks) * self.ranks

    @property
    def streams_per_rank(self) -> int:
        return self.effective_streams // self.ranks

    def streams_in(self, epoch: int) -> int:
        """Return V of an epoch."""
        if self.begun is not None and self.begun.epoch == epoch:
            return self.begun.streams
        return self.effective_streams

    def stream(self, epoch: int, number: int) -> range:
        """Return the records of a stream, as counted through in an epoch."""
        length, extra = divmod(self.examples, self.streams_in(epoch))
        begin = number * length + min(number, extra)
        return range(begin, begin + length + (number < extra))

    def rank_streams(self, rank: int, position: int) -> list[tuple[int, int]]:
        """Return the streams of a rank and their next records, in reading order from a position on.

        Args:
            rank: Rank that reads.
            position: First position of the endless sequence not yet read by all ranks.

        Returns:
            Pairs (stream, record of the stream). The rank reads one record from each in turn.
        """
        own = position + (rank - position) % self.ranks
        epoch = position // self.examples
        in_epoch = self.streams_in(epoch)
        streams = []
        for turn in range(in_epoch // gcd(in_epoch, self.ranks)):
            record, stream = divmod(own - epoch * self.examples + turn * self.ranks, in_epoch)
            streams.append((stream, record))
        return streams

    def windows(self, epoch: int, stream: int, record: int) -> Iterator[Window]:
        """Yield the windows of a stream in an epoch, with what one rank reads of them from one of
        its records on; the first may be partial.
        """
        begin = self.stream(epoch, stream).start
        blocks, ends = _layout(self.counts, self.seed, epoch)
        for number, size, own in self._window_parts(epoch, stream, record):
            shuffle = list(range(size))
            key = f"{self.seed}/{epoch}/{stream}/{number}"
            shuffle_in_place(shuffle, random.Random(key))
            segments = consecutive(self.counts, blocks, ends, begin + number * self.window, size)
            yield Window(tuple(segments), tuple(shuffle[own.start :: own.step]), key)

    def _window_parts(
        self, epoch: int, stream: int, record: int
    ) -> Iterator[tuple[int, int, range]]:
        """Yield the windows of a stream that one rank reads from one of its records on: the number
        of the window, its records, and the places that the rank takes after the shuffle.
        """
        length = len(self.stream(epoch, stream))
        every = self.ranks // gcd(self.streams_in(epoch), self.ranks)
        while record < length:
            number, place = divmod(record, self.window)
            size = min(self.window, length - number * self.window)
            own = range(place, size, every)
            yield number, size, own
            record += every * len(own)

    def readings(self, rank: int, position: int) -> list[list[Callable[[], Iterator[Window]]]]:
        """Return the windows that a rank reads from a position on.

        Args:
            rank: Rank that reads.
            position: First position of the endless sequence not yet read by all ranks.

        Returns:
            The windows in the order in which they are read: first the rest of an epoch that was
            begun with another V, if the position lies in one, then those of all later epochs. Each
            entry has a function of windows for each turn: the rank reads one record of turn 0, one
            of turn 1, and so on, cyclically.
        """
        rest: list[Callable[[], Iterator[Window]]] = []
        epoch = position // self.examples
        if self.streams_in(epoch) != self.effective_streams:
            streams = self.rank_streams(rank, position)
            rest = [partial(self.windows, epoch, *stream) for stream in streams]
            position = (epoch + 1) * self.examples
        endless: list[Callable[[], Iterator[Window]]] = [
            partial(self._endless_windows, rank, turn, position)
            for turn in range(self.streams_per_rank)
        ]
        return [rest, endless] if rest else [endless]

    def _endless_windows(self, rank: int, turn: int, position: int) -> Iterator[Window]:
        """Yield the windows of one turn of a rank, epoch after epoch: across the ends of epochs, so
        that the next epoch is read ahead like any other window.
        """
        before = 0
        while True:
            epoch = position // self.examples
            end = (epoch + 1) * self.examples
            streams = self.rank_streams(rank, position)
            yield from self.windows(epoch, *streams[(turn - before) % len(streams)])
            own = position + (rank - position) % self.ranks
            before += len(range(own, end, self.ranks))
            position = end

    def locate(self, position: int) -> tuple[int, int]:
        """Return the block, and the record in it, at a position of the endless sequence."""
        window = self.window_at(position)
        return window.locate(window.shuffle[0])

    def window_at(self, position: int) -> Window:
        """Return the rest of a window whose first record is that of a position."""
        epoch, within = divmod(position, self.examples)
        record, stream = divmod(within, self.streams_in(epoch))
        return next(self.windows(epoch, stream, record))


def consecutive(
    counts: Sequence[int], blocks: Sequence[int], ends: Sequence[int], begin: int, size: int
) -> Iterator[Segment]:
    """Yield the segments of blocks that hold `size` records from `begin` on.

    Args:
        counts: Number of records in each block.
        blocks: Blocks in the order in which their records are counted through.
        ends: Running totals of their records in that order.
        begin: First record.
        size: Number of records.
    """
    index = bisect.bisect_right(ends, begin)
    while size:
        first = begin - (ends[index] - counts[blocks[index]])
        count = min(size, ends[index] - begin)
        if count:
            yield Segment(blocks[index], first, count)
        begin, size, index = begin + count, size - count, index + 1


@lru_cache(maxsize=8)
def _layout(
    counts: tuple[int, ...], seed: int, epoch: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the blocks in the order of an epoch, and the running totals of their records."""
    blocks = list(range(len(counts)))
    shuffle_in_place(blocks, random.Random(f"{seed}/{epoch}"))
    return tuple(blocks), tuple(accumulate(counts[block] for block in blocks))


def shuffle_in_place(items: list[int], source: random.Random) -> None:
    """Permute [0, n) in place. Uses `random()`, whose sequence Python guarantees."""
    keys = [source.random() for _ in items]
    items.sort(key=lambda item: keys[item])
