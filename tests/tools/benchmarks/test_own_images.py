"""The sets of own images, and the table of the ways that are compared on them."""

import json

import numpy as np
import pytest
from PIL import Image

from tools.benchmarks.own_images import hospital, table
from tools.benchmarks.own_images.others import OTHERS, SIDE, read
from tools.benchmarks.own_images.sets import SETS, ImageSet


@pytest.mark.parametrize("name", SETS)
def test_an_image_follows_from_its_seed_and_differs_by_part(name):
    image_set = SETS[name]

    def drawn(seed, label, *, test):
        return image_set.draw(np.random.default_rng([seed, label]), label, test)

    for label in range(len(image_set.classes)):
        one = drawn(1, label, test=False)
        np.testing.assert_array_equal(one, drawn(1, label, test=False))
        assert not np.array_equal(one, drawn(2, label, test=False))
        assert one.std() > 1
        assert one.dtype == (np.uint16 if name == "cracks" else np.uint8)
        assert min(one.shape[:2]) >= SIDE
    assert one.max() < (4096 if name == "cracks" else 256)


def test_the_sets_are_those_that_the_page_describes():
    counts = {name: image_set.images for name, image_set in SETS.items()}
    assert (min(counts.values()), max(counts.values())) == (300, 4998)
    assert max(SETS["cells"].train) / min(SETS["cells"].train) > 20


@pytest.fixture
def written(tmp_path):
    """Bright and dark images, which every way tells apart."""

    def draw(random, label, test):
        return random.integers(0, 60, (70, 80)).astype(np.uint8) + np.uint8(150 * label)

    ImageSet("levels", ("dark", "bright"), (30, 12), 10, draw).write(tmp_path, 0)
    return tmp_path


@pytest.mark.parametrize("way", ["trees", "components"])
def test_a_way_learns_what_is_plain(written, way, monkeypatch):
    if way == "components":
        monkeypatch.setattr("tools.benchmarks.own_images.others.PCA", smaller_pca)
    row = table._row(written, way, 0)
    assert row["balanced_accuracy"] == 1.0
    assert row["never"] == []
    images, labels, files = read(written / "train")
    assert images.shape == (42, SIDE, SIDE, 1)
    assert images.max() <= 1
    assert sorted({file.parent.name for file in files}) == ["bright", "dark"]
    assert np.bincount(labels).tolist() == [12, 30]


def smaller_pca(components, **options):
    from sklearn.decomposition import PCA

    return PCA(min(components, 20), **options)


def test_a_class_that_is_never_predicted_is_named():
    found = table.scores(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 1]), ["a", "b", "c"])
    assert found["recalls"] == [0.5, 1.0, 0.0]
    assert found["balanced_accuracy"] == 0.5
    assert found["never"] == ["c"]


def row(way, accuracy, seed=0, never=()):
    return {
        "set": "cells",
        "seed": seed,
        "way": way,
        "balanced_accuracy": accuracy,
        "recalls": [accuracy],
        "seconds": 1.0,
        "never": list(never),
    }


def test_the_table_has_medians_and_the_distance_to_the_best_of_the_others():
    rows = [row(way, 0.5) for way in OTHERS] + [row("keras", 0.8, 1), row("keras", 0.6, 2)]
    rows += [row("fit", 0.57, 0, ["ring"]), row("fit", 0.59, 1)]
    shown = table.show({"rows": rows})
    assert "60.0% (50.0% to 80.0%)" in shown
    assert "58.0% (57.0% to 59.0%)" in shown
    assert "| -2.0 " in shown
    goals = table.goals({"rows": rows})
    assert "cells: kept (-2.0 points)" in goals
    assert "cells, seed 0: fit never predicts ring" in goals
    assert "signs: not measured with every way" in goals
    assert "cells: missed" in table.goals({"rows": [*rows[:-1], row("fit", 0.53, 1)]})


def test_rows_that_are_there_are_not_measured_again(tmp_path, monkeypatch):
    measured = []

    def measure_row(folder, way, seed):
        measured.append((way, seed))
        if way == "keras":
            raise KeyboardInterrupt
        return {
            key: value
            for key, value in row(way, 0.5, seed).items()
            if key not in ("set", "seed", "way")
        }

    monkeypatch.setattr(table, "_row", measure_row)
    monkeypatch.setattr(
        table, "SETS", {"cells": ImageSet("x", ("a",), (1,), 1, SETS["cells"].draw)}
    )
    options = table.Options(str(tmp_path / "a.json"), ways=("trees", "keras"), seeds=(0,))
    with pytest.raises(KeyboardInterrupt):
        table.measure(options)
    assert [one["way"] for one in json.loads((tmp_path / "a.json").read_text())["rows"]] == [
        "trees"
    ]
    measured.clear()
    with pytest.raises(KeyboardInterrupt):
        table.measure(options)
    assert measured == [("keras", 0)]


def test_a_hospital_has_patients_formats_damaged_files_and_a_table(tmp_path):
    hospital.write(tmp_path, 30, 0)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".png", ".tif", ".jpg", ".bmp", ".txt", ".csv"}
    counts = {path.name: len(list(path.iterdir())) for path in tmp_path.iterdir() if path.is_dir()}
    assert counts == {"Normal": 21, "Pneumonie": 7, "Erguss": 2}
    lines = (tmp_path / "labels.csv").read_text(encoding="latin-1").splitlines()
    assert lines[0] == "Datei;Diagnose;Patient;Standort;Gerät"
    assert all((tmp_path / line.split(";")[0]).is_file() for line in lines[1:])
    assert len(lines) == 301
    broken = 0
    for path in files:
        if path.suffix in (".png", ".tif", ".jpg", ".bmp"):
            try:
                Image.open(path).load()
            except (OSError, SyntaxError):
                broken += 1
    assert broken == 4
