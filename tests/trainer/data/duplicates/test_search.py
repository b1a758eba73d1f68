"""The search for near-duplicates among hashes."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.duplicates import search
from trainer.data.duplicates.hashes import BITS
from trainer.data.duplicates.search import ROW, HashFile, find_matches


def every_pair(training, held_out, distance):
    pairs = []
    for place, own in enumerate(held_out.tolist()):
        near = [((own ^ other).bit_count(), n) for n, other in enumerate(training.tolist())]
        if near and min(near)[0] <= distance:
            pairs.append((place, min(near)[1], min(near)[0]))
    return pairs


def hash_file(values, most=1 << 20):
    """A file of hashes, the last ones first, added so many at once."""
    rows = np.zeros(len(values), ROW)
    rows["hash"], rows["place"] = values, np.arange(len(values))
    file = HashFile()
    for begin in range(0, len(rows), most):
        file.add(rows[::-1][begin : begin + most])
    return file


def matches(training, held_out, distance):
    database = find_matches(hash_file(training), hash_file(held_out), distance)
    return database.execute("SELECT * FROM match ORDER BY held_out").fetchall()


@settings(max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(0, 6), st.sampled_from([1, 5, 1 << 20]),
    st.sampled_from([1, 4, 1 << 18]), st.sampled_from([2, 64]),
)  # fmt: skip
def test_the_nearest_of_all_pairs_is_found_whatever_fits_into_memory(
    seed, distance, pairs, rows, files
):
    noise = np.random.default_rng(seed)
    training = noise.integers(0, 1 << 63, 40, np.uint64)
    held_out = np.concatenate([training[:10], noise.integers(0, 1 << 63, 5, np.uint64)])
    for place in range(10):
        for bit in noise.choice(BITS, noise.integers(0, 9), replace=False):
            held_out[place] ^= np.uint64(1) << np.uint64(bit)
    training[30] = training[3]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_PAIRS", pairs), ("_ROWS", rows), ("_FILES", files)):
            patch.setattr(search, name, value)
        nearest = matches(training, held_out, distance)
    assert nearest == every_pair(training, held_out, distance)


def test_a_split_without_hashes_has_no_pairs():
    some, none = np.array([1, 2], np.uint64), np.array([], np.uint64)
    assert matches(some, none, 4) == matches(none, some, 4) == matches(none, none, 4) == []


@pytest.mark.long
def test_memory_does_not_grow_with_the_images(monkeypatch):
    monkeypatch.setattr(search, "_ROWS", 250)
    monkeypatch.setattr(search, "_PAIRS", 500)
    monkeypatch.setattr(search, "_FILES", 4)
    peaks = []
    for count in (5_000, 20_000):
        values = np.random.default_rng(0).integers(0, 1 << 63, count, np.uint64)
        # A third of all are equal, and all held-out images are near.
        values[::3] = 5
        files = hash_file(values, 1000), hash_file(values[::2] ^ np.uint64(6), 1000)
        tracemalloc.start()
        try:
            database = find_matches(*files, 2)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert database.execute("SELECT count(*) FROM match").fetchone() == (count // 2,)
    # A hash and a place alone would be 16 bytes.
    assert (peaks[1] - peaks[0]) / 15_000 < 8
