"""Groups stay in one split."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer.support.data_sets.image_folders import (
    bytes_path,
    picture,
    prepare,
    records,
    rejected,
)
from trainer.data.intake.groups import Group, by_pattern, hold_out, read_groups
from trainer.errors import DataError

COUNTS = st.dictionaries(st.integers(0, 4), st.integers(1, 6), min_size=1, max_size=3)


def held_out(groups, fraction):
    whole = Counter()
    for group in groups:
        whole.update(group.counts)

    def of_label(label):
        own = [group for group in groups if label in group.counts]
        return sorted(own, key=lambda group: (sum(group.counts.values()), group.name))

    return set(hold_out(whole, groups, of_label, fraction))


@settings(max_examples=200)
@given(st.lists(COUNTS, min_size=2, max_size=60), st.floats(0.05, 0.5))
def test_no_class_loses_all_its_images_and_shares_are_near(counts, fraction):
    groups = [Group(f"g{number}", count) for number, count in enumerate(counts)]
    chosen = held_out(groups, fraction)
    whole, held = Counter(), Counter()
    for group in groups:
        whole.update(group.counts)
        if group.name in chosen:
            held.update(group.counts)
    assert all(held[label] < whole[label] for label in whole)
    assert sum(held.values()) <= fraction * sum(whole.values()) + 6 * len(whole) + len(whole)


def test_a_class_gets_a_held_out_group_if_it_has_two():
    groups = [Group("a", {0: 50}), Group("b", {0: 50}), Group("c", {1: 3}), Group("d", {1: 9})]
    assert held_out(groups, 0.02) == {"a", "c"}


def test_a_pattern_finds_the_group():
    assert by_pattern(r"p(\d+)_")("cat/p17_3.png") == "17"
    assert by_pattern(r"^[^/]+/[^/]+")("cat/p17/3.png") == "cat/p17"
    assert by_pattern(r"p(\d+)_")("cat/3.png") == ""


@pytest.mark.parametrize("seed", [0, 1])
def test_no_group_is_in_two_splits(tmp_path, seed):
    for number in range(40):
        for label in ("cat", "dog"):
            folder = tmp_path / "in" / label / f"p{number % 10}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.jpg").write_bytes(picture(number))
    prepare(tmp_path / "in", tmp_path / "out", group_by="p[0-9]+", seed=seed)
    found = {
        split: {r.filename.split("/")[1] for r in records(tmp_path / "out", split)}
        for split in ("train", "validation")
    }
    assert found["train"] | found["validation"] == {f"p{n}" for n in range(10)}
    assert not found["train"] & found["validation"]
    assert len(found["validation"]) == 1


def test_held_out_records_have_their_groups_as_numbers_without_the_files_that_were_rejected(
    tmp_path,
):
    for number in range(60):
        folder = tmp_path / "in" / ("cat", "dog")[number % 2] / f"p{number % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(picture(number) if number % 7 else b"no image")
    options = {"group_by": "p[0-9]+", "max_rejected": "20", "held_out": 0.4}
    prepare(tmp_path / "in", tmp_path / "out", **options)
    names = [r.filename.split("/")[1] for r in records(tmp_path / "out", "validation")]
    groups = read_groups(tmp_path / "out")
    assert list(groups) == ["validation"]
    assert len(names) == len(groups["validation"]) > 8
    assert len(set(zip(names, groups["validation"], strict=True))) == len(set(names)) > 3
    assert set(groups["validation"]) == set(range(len(set(names))))
    prepare(tmp_path / "in", tmp_path / "plain", max_rejected="20")
    assert not (tmp_path / "plain" / "groups.json").exists()
    assert read_groups(tmp_path / "plain") == read_groups(None) == {}


def test_given_splits_that_share_a_group_are_refused(tmp_path):
    for split in ("train", "validation"):
        for label in ("cat", "dog"):
            folder = tmp_path / "in" / split / label
            folder.mkdir(parents=True)
            (folder / f"p1-{split}.jpg").write_bytes(picture(1))
    with pytest.raises(DataError, match=r"more than one split: 1, such as p1; the folders"):
        prepare(tmp_path / "in", tmp_path / "out", group_by="p[0-9]")
    with pytest.raises(DataError, match="has no group"):
        prepare(tmp_path / "in", tmp_path / "out", group_by="q[0-9]")


def test_groups_and_reasons_of_names_that_are_no_text_are_kept(tmp_path):
    for number in range(20):
        for label in ("cat", "dog"):
            folder = tmp_path / "in" / label
            folder.mkdir(parents=True, exist_ok=True)
            name = b"p%d\xff_%d.jpg" % (number % 5, number)
            bytes_path(folder, name).write_bytes(picture(number))
    bytes_path(tmp_path / "in", b"\xff.jpg").write_bytes(picture(0))
    prepare(tmp_path / "in", tmp_path / "out", group_by="p.*_", max_rejected="1", held_out=0.4)
    assert set(read_groups(tmp_path / "out")["validation"]) == {0, 1}
    assert rejected(tmp_path / "out")[1:] == [("", "\udcff.jpg", "lies in no class's folder")]
