"""The order of examples, by reading as trainer/data/pipeline.py does, but without any files."""

import random
import time
from dataclasses import replace
from itertools import cycle, islice, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.data.order import Begun, Order

BLOCKS = st.lists(st.integers(0, 20), min_size=1, max_size=7).filter(any)


@st.composite
def orders(draw):
    return Order(
        counts=tuple(draw(BLOCKS)),
        streams=draw(st.integers(1, 12)),
        window=draw(st.integers(1, 9)),
        seed=draw(st.integers(0, 2**31 - 1)),
        ranks=draw(st.integers(1, 5)),
    )


@st.composite
def resumed_orders(draw):
    """An order and a position in one of its first three epochs."""
    order = draw(orders())
    return order, draw(st.integers(0, 3 * order.examples))


def content(window):
    """The records that a window reads, before they are shuffled."""
    return [
        (segment.block, index)
        for segment in window.segments
        for index in range(segment.first, segment.first + segment.count)
    ]


def read_rank(order, rank, position):
    """A rank's records: one from the windows of each of its turns, in a circle, until the first of
    them has none; then those of the next reading.
    """
    for reading in order.readings(rank, position):
        turns = [records_of(windows()) for windows in reading]
        for record in map(next, cycle(turns), repeat(None)):
            if record is None:
                break
            yield record


def records_of(windows):
    """The records that a rank takes of some windows."""
    for window in windows:
        records = content(window)
        yield from (records[index] for index in window.shuffle)


def read_all(order, position, length):
    """What all ranks read together at the positions [position, position + length)."""
    readers = [read_rank(order, rank, position) for rank in range(order.ranks)]
    return [next(readers[turn % order.ranks]) for turn in range(position, position + length)]


def everything(order):
    return [(block, index) for block, size in enumerate(order.counts) for index in range(size)]


@given(orders())
def test_every_record_is_read_exactly_once_in_every_epoch(order):
    n = order.examples
    records = read_all(order, 0, 3 * n)
    for epoch in range(3):
        assert sorted(records[epoch * n : (epoch + 1) * n]) == everything(order)


@given(resumed_orders())
def test_locate_names_what_is_read_at_a_position(case):
    order, position = case
    read = read_all(order, 0, position + 1)
    assert order.locate(position) == read[position]


@given(resumed_orders())
def test_starting_at_a_position_yields_exactly_the_rest(case):
    order, position = case
    length = order.examples + 5
    whole = read_all(order, 0, position + length)
    assert read_all(order, position, length) == whole[position:]


def resumed(order, position, ranks):
    """The order of a run that continues at a position with another number of ranks."""
    epoch = position // order.examples
    return replace(order, ranks=ranks, begun=Begun(epoch, order.streams_in(epoch)))


@given(orders())
def test_a_rank_reads_the_bytes_of_its_own_share_only(order):
    touched = [
        record
        for rank in range(order.ranks)
        for stream, first in order.rank_streams(rank, 0)
        for window in order.windows(0, stream, first)
        for record in content(window)
    ]
    assert sorted(touched) == everything(order)


@given(orders())
def test_the_shares_of_ranks_differ_by_no_more_than_a_record_a_stream(order):
    shares = [
        sum(
            len(content(window))
            for stream, first in order.rank_streams(rank, 0)
            for window in order.windows(0, stream, first)
        )
        for rank in range(order.ranks)
    ]
    assert max(shares) - min(shares) <= order.streams_per_rank


@given(resumed_orders())
def test_a_resume_reads_again_at_most_one_window_of_each_stream(case):
    order, position = case
    epoch = position // order.examples
    for rank in range(order.ranks):
        for stream, first in order.rank_streams(rank, position):
            windows = list(order.windows(epoch, stream, first))
            touched = sum(len(content(window)) for window in windows)
            left = sum(len(window.shuffle) for window in windows)
            assert touched - left <= order.window


@given(orders())
def test_windows_are_no_longer_than_asked_for(order):
    for stream in range(order.effective_streams):
        for window in order.windows(0, stream, 0):
            assert 1 <= len(content(window)) <= order.window


@given(resumed_orders(), st.integers(1, 5))
def test_a_run_may_continue_with_other_ranks_that_divide_the_streams(case, ranks):
    order, position = case
    before, after = replace(order, streams=60), replace(order, streams=60, ranks=ranks)
    whole = read_all(before, 0, position + order.examples)
    assert read_all(after, position, order.examples) == whole[position:]


@given(resumed_orders(), st.integers(1, 5))
def test_an_epoch_keeps_its_order_with_any_other_number_of_ranks(case, ranks):
    order, position = case
    n, after = order.examples, resumed(order, position, ranks)
    left = n - position % n
    read = read_all(after, position, left + 2 * n)
    assert read[:left] == read_all(order, 0, position + left)[position:]
    for epoch in range(2):
        assert sorted(read[left + epoch * n : left + (epoch + 1) * n]) == everything(order)
    new = replace(order, ranks=ranks)
    assert read[left:] == read_all(new, position + left, 2 * n)
    assert after.locate(position) == order.locate(position)


def test_each_of_588_images_is_seen_once_in_an_epoch_of_2_then_3_then_5_ranks_then_1():
    order = Order((84,) * 7, streams=16, window=32, seed=0, ranks=2)
    seen, stops = [], (0, 150, 280, 434, 588)
    for ranks, begin, end in zip((2, 3, 5, 1), stops, stops[1:], strict=False):
        order = resumed(order, begin, ranks)
        seen += read_all(order, begin, end - begin)
    assert sorted(seen) == everything(order)
    assert [order.streams_in(epoch) for epoch in (0, 1)] == [16, 16]
    assert seen == read_all(replace(order, ranks=2, begun=None), 0, 588)


@pytest.mark.parametrize(
    ("streams", "ranks", "effective"), [(64, 8, 64), (64, 5, 65), (1, 3, 3), (7, 7, 7), (8, 3, 9)]
)
def test_streams_are_rounded_up_to_a_multiple_of_the_ranks(streams, ranks, effective):
    assert Order((100,), streams, 8, 0, ranks).effective_streams == effective


def test_epochs_and_seeds_have_different_orders():
    order = Order((50, 50), streams=4, window=10, seed=0, ranks=2)
    records = read_all(order, 0, 300)
    assert len({tuple(records[begin : begin + 100]) for begin in (0, 100, 200)}) == 3
    assert len({tuple(read_all(replace(order, seed=seed), 0, 100)) for seed in range(5)}) == 5


def test_equal_seeds_have_equal_orders_whatever_random_is_doing():
    order = Order((50, 50), streams=4, window=10, seed=3, ranks=2)
    random.seed(1)
    first = read_all(order, 0, 100)
    random.seed(2)
    assert read_all(order, 0, 100) == first


def test_neighbours_in_a_batch_come_from_all_over_the_data():
    order = Order((100,) * 10, streams=10, window=100, seed=0, ranks=2)
    assert len({block for block, _ in read_all(order, 0, 10)}) == 10


@pytest.mark.parametrize("before_the_end", [0, 1, 8, 5_000])
def test_a_resume_at_the_end_of_an_epoch_of_imagenet_is_planned_at_once(before_the_end):
    n, blocks = 1_281_167, 1024
    counts = tuple(n * (i + 1) // blocks - n * i // blocks for i in range(blocks))
    order = Order(counts, streams=64, window=512, seed=0, ranks=8)
    position = 5 * n - before_the_end
    # Time of this process, as others share the machine.
    start = time.process_time()
    planned = [
        window
        for rank in range(order.ranks)
        for stream, record in order.rank_streams(rank, position)
        for window in islice(order.windows(position // n, stream, record), 1)
    ]
    assert time.process_time() - start < 2.0
    assert all(len(content(window)) <= 512 for window in planned)
