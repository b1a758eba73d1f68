"""The embedded data set."""

import hashlib
import io

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from tests.trainer.support.data_sets.independent_reader import read
from trainer.data.builtin.writer import write_embedded
from trainer.data.manifest import load_manifest
from trainer.errors import DataError


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def splits(digits_folder):
    manifest = load_manifest(digits_folder)
    return {
        name: read([digits_folder / shard.file for shard in split.shards])
        for name, split in manifest.splits.items()
    }


def test_digits_are_split_into_1437_and_360(splits):
    assert {name: len(found) for name, found in splits.items()} == {
        "train": 1437,
        "validation": 360,
    }


def test_thirty_six_digits_of_each_class_are_validation(splits):
    labels = [r["image/class/label"] for r in splits["validation"]]
    assert np.bincount(labels).tolist() == [36] * 10


def test_splits_share_no_image_and_hold_all_of_them(splits):
    train, validation = (
        {r["image/filename"] for r in splits[name]} for name in ("train", "validation")
    )
    assert not train & validation
    assert len(train | validation) == 1797


def test_splits_share_no_pixels_either(splits):
    train, validation = (
        {r["image/encoded"] for r in splits[name]} for name in ("train", "validation")
    )
    assert not train & validation


def test_digits_are_those_of_scikit_learn(splits):
    data = load_digits()
    for r in [*splits["train"][::50], *splits["validation"][::20]]:
        number = int(r["image/filename"].decode().removeprefix("digit-").removesuffix(".png"))
        pixels = np.asarray(Image.open(io.BytesIO(r["image/encoded"])))
        assert np.abs(pixels - data.images[number] * (255 / 16)).max() <= 0.5
        assert r["image/class/label"] == data.target[number]
        assert r["image/class/text"] == str(data.target[number]).encode()
        assert (r["image/height"], r["image/width"]) == pixels.shape == (8, 8)


def test_classes_are_mixed_in_every_shard(digits_folder):
    manifest = load_manifest(digits_folder)
    for shard in manifest.splits["train"].shards:
        assert len({r["image/class/label"] for r in read([digits_folder / shard.file])}) == 10


def test_the_normalization_is_that_of_the_training_pixels(digits_folder, splits):
    pixels = np.stack(
        [np.asarray(Image.open(io.BytesIO(r["image/encoded"]))) for r in splits["train"]]
    )
    manifest = load_manifest(digits_folder)
    assert manifest.normalization.mean == pytest.approx([pixels.mean()] * 3, abs=1e-3)
    assert manifest.normalization.std == pytest.approx([pixels.std()] * 3, abs=1e-3)


def test_digits_prepared_again_are_the_same_bytes_and_version(digits_folder, tmp_path):
    again = tmp_path / "data" / "digits"
    assert write_embedded("digits", str(again)).version == load_manifest(digits_folder).version
    # The manifest names the folder that was asked for.
    first, second = hashes(digits_folder), hashes(again)
    assert first.pop("manifest.json") != second.pop("manifest.json")
    assert first == second
    assert [path.name for path in again.parent.iterdir()] == ["digits"]


def test_digits_that_are_there_stay_untouched(digits_folder):
    before = {path.name: path.stat().st_mtime_ns for path in digits_folder.iterdir()}
    write_embedded("digits", str(digits_folder))
    assert {path.name: path.stat().st_mtime_ns for path in digits_folder.iterdir()} == before


def test_a_folder_with_something_else_is_refused_and_stays(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=f"{tmp_path}: is not empty"):
        write_embedded("digits", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
