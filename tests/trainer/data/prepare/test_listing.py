"""The order in which files become records."""

import os
from collections import Counter
from math import floor

from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.prepare import job
from trainer.data.prepare.encode import Rules
from trainer.data.prepare.input_files import ImageFile, Inputs
from trainer.data.prepare.listing import Listing, SplitSize
from trainer.data.prepare.shards import LEAST_SHARDS, Preparation

COUNTS = st.lists(st.integers(1, 12), min_size=1, max_size=6)


def listed(folder, counts, seed, part, splits=("",), names=None):
    """The listing of a number of files of each class: names by split, in their order."""
    names = names or [f"class {label}" for label in range(len(counts))]

    def entries():
        for label, count in enumerate(counts):
            for number in range(count):
                split = splits[number % len(splits)]
                name = f"{names[label]}/{number}"
                yield ImageFile(split, name, label, f"/in/{name}", 0, 100 + number, 5)

    path = folder / "listing.sqlite"
    path.unlink(missing_ok=True)
    listing = Listing(path)
    listing.fill(Inputs(tuple(names), entries), seed, part)
    found = {
        split: list(listing.files(split, 0, there.files))
        for split, there in listing.split_sizes().items()
    }
    listing.close()
    return found


@settings(max_examples=60)
@given(COUNTS, st.integers(0, 2**31 - 1), st.floats(0.01, 0.99))
def test_each_class_gives_its_share_but_at_least_one_and_not_all(tmp_path_factory, counts, seed,
                                                                 part):  # fmt: skip
    found = listed(tmp_path_factory.getbasetemp(), counts, seed, part)
    held = Counter(entry.label for entry in found.get("validation", []))
    for label, count in enumerate(counts):
        assert held[label] == min(max(floor(count * part + 0.5), 1), count - 1)


@settings(max_examples=40)
@given(COUNTS, st.integers(0, 2**31 - 1))
def test_each_file_has_one_position_and_every_position_a_file(tmp_path_factory, counts, seed):
    found = listed(
        tmp_path_factory.getbasetemp(), counts, seed, 0.3, splits=("train", "validation")
    )
    wanted = Counter(("train", "validation")[n % 2] for count in counts for n in range(count))
    assert {split: len(entries) for split, entries in found.items()} == wanted
    every = [(entry.split, entry.name) for entries in found.values() for entry in entries]
    assert len(set(every)) == len(every)


def test_the_order_depends_on_the_seed_and_not_on_the_order_of_listing(tmp_path):
    one, other = listed(tmp_path, [20, 20], 0, 0.2), listed(tmp_path, [20, 20], 1, 0.2)
    assert one != other
    assert one == listed(tmp_path, [20, 20], 0, 0.2)
    # The class that is listed first changes, so labels do, but not where images stand.
    swapped = listed(tmp_path, [20, 20], 0, 0.2, names=["class 1", "class 0"])
    for split, entries in one.items():
        assert [e.name for e in swapped[split]] == [e.name for e in entries]


def test_another_seed_holds_out_other_images(tmp_path):
    held = [
        {entry.name for entry in listed(tmp_path, [50], seed, 0.2)["validation"]}
        for seed in range(3)
    ]
    assert held[0] != held[1] != held[2]


def test_a_further_class_does_not_move_images_between_splits(tmp_path):
    before = listed(tmp_path, [30, 30], 0, 0.2)
    after = listed(tmp_path, [30, 30, 30], 0, 0.2)
    for split, entries in before.items():
        assert {e.name for e in entries} <= {e.name for e in after[split]}


@given(
    st.integers(1, 500), st.integers(1, 10**9), st.integers(1, 5000), st.floats(0.01, 4),
    st.integers(1, 100),
)  # fmt: skip
def test_shards_hold_each_file_once_and_are_equally_long(train, size, held, growth, shard_mb):
    preparation = Preparation(os, os, (), (), Rules(1))
    sizes = {"train": SplitSize(train, size), "validation": SplitSize(held, size)}
    shards = job.plan_shards(preparation, sizes, growth, shard_mb)
    for split, files in (("train", train), ("validation", held)):
        ranges = [shard for shard in shards.values() if shard.split == split]
        begins, ends = [shard.begin for shard in ranges], [shard.end for shard in ranges]
        assert [ranges[0].begin, *ends] == [*begins, files]
        lengths = {shard.end - shard.begin for shard in ranges}
        assert 0 not in lengths
        assert max(lengths) - min(lengths) <= 1
    assert list(shards) == [shard.shard for shard in shards.values()]


@given(
    st.integers(1, 10**7), st.integers(1, 10**12), st.floats(0.01, 4), st.integers(1, 500),
    st.sampled_from([1, 64]),
)  # fmt: skip
def test_shards_are_as_many_as_asked_for_where_each_has_enough_images(
    files, size, growth, shard_mb, least
):
    by_size = job.shard_count(SplitSize(files, size), growth, shard_mb, 1)
    count = job.shard_count(SplitSize(files, size), growth, shard_mb, least)
    assert by_size <= count <= max(by_size, least)
    if count > by_size:
        assert files // count >= job.FEWEST_IMAGES
        assert count == least or files // (count + 1) < job.FEWEST_IMAGES


def test_a_small_data_set_of_many_images_is_not_one_shard():
    """12,600 images of together 9.8 MB, as a first one often is, and some larger ones."""
    cases = {
        (12_600, 9_800_000): 64,
        (450, 10**7): 7,
        (100, 10**6): 1,
        (1_281_167, 14 * 10**10): 1_097,
    }
    for (files, size), wanted in cases.items():
        assert job.shard_count(SplitSize(files, size), 1.0, 128, LEAST_SHARDS) == wanted
