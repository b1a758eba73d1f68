"""Near-duplicates of a data set: found, listed and refused, and never removed."""

import csv

import pytest

from tests.trainer.data.duplicates.test_hashes import encode, scene
from tests.trainer.support.data_sets.image_folders import content, prepare, records
from trainer.cli import main
from trainer.data.manifest import load_manifest
from trainer.data.prepare.output import only_writer
from trainer.errors import DataError
from trainer.report.data_set_page import write_inspection
from trainer.report.options import InspectOptions


@pytest.fixture
def folder(tmp_path):
    """Two held-out images that the training split has nearly the same of, one as another class."""
    root, seed = tmp_path / "images", 0
    for split, count in (("train", 8), ("validation", 3)):
        for name in ("cat", "dog"):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                (root / split / name / f"{number}.jpg").write_bytes(encode(scene(seed)))
                seed += 1
    # The third cat of the training split, and its fifth dog.
    (root / "validation" / "cat" / "1.jpg").write_bytes(encode(scene(2), quality=40))
    smaller = scene(12).resize((100, 80))
    (root / "validation" / "cat" / "2.jpg").write_bytes(encode(smaller))
    return root


def listed(output):
    with (output / "near-duplicates.csv").open(newline="") as file:
        return sorted(tuple(row.values())[:4] for row in csv.DictReader(file))


PAIRS = [("cat/1.jpg", "cat", "cat/2.jpg", "cat"), ("cat/2.jpg", "cat", "dog/4.jpg", "dog")]


def test_a_search_that_was_killed_leaves_no_file_behind_the_next_one(folder, tmp_path):
    output = tmp_path / "set"
    prepare(folder, output, near_duplicates="off")
    left = output / ".near-duplicates.csv-1.partial"
    left.touch()
    assert main(["near-duplicates", str(output)]) == 0
    assert not left.exists()
    assert listed(output) == PAIRS


def test_a_second_search_of_the_same_data_set_is_refused(folder, tmp_path, capsys):
    output = tmp_path / "set"
    prepare(folder, output, near_duplicates="off")
    with only_writer(output):
        assert main(["near-duplicates", str(output)]) == 1
    assert f"{output}: another process is writing there; wait for it" in capsys.readouterr().err


def test_pairs_are_reported_and_nothing_is_removed(folder, tmp_path, capsys):
    with_report = prepare(folder, tmp_path / "one", near_duplicates="report")
    assert "2 of 6 held-out images (33.3%) are nearly in the training split as well, 1 of them" in (
        capsys.readouterr().out
    )
    assert listed(tmp_path / "one") == PAIRS
    assert len(records(tmp_path / "one", "validation")) == 6
    page = write_inspection(tmp_path / "one", InspectOptions()).read_text()
    assert "2 of 6 held-out images (33.3%) are nearly in the training split" in page

    without = prepare(folder, tmp_path / "two", near_duplicates="off")
    assert with_report == without
    files = {
        k: v for k, v in content(tmp_path / "one").items() if k.endswith((".tfrecord", "json"))
    }
    assert files.items() <= content(tmp_path / "two").items()
    page = write_inspection(tmp_path / "two", InspectOptions()).read_text()
    assert "Near-duplicates" not in page


def test_they_are_looked_for_unless_there_are_many_images(folder, tmp_path, capsys, monkeypatch):
    prepare(folder, tmp_path / "few")
    assert listed(tmp_path / "few") == PAIRS
    capsys.readouterr()
    monkeypatch.setattr("trainer.data.duplicates.check.MOST_UNASKED", 5)
    prepare(folder, tmp_path / "many")
    assert not (tmp_path / "many" / "near-duplicates.csv").exists()
    said = f"not looked for in more than 5 images; `ml-trainer near-duplicates {tmp_path / 'many'}`"
    assert said in capsys.readouterr().out
    prepare(folder, tmp_path / "asked", near_duplicates="report")
    assert listed(tmp_path / "asked") == PAIRS


def test_refused_ends_without_a_manifest_and_the_same_command_without_it_continues(
    folder, tmp_path, capsys
):
    output = tmp_path / "out"
    with pytest.raises(DataError, match="2 held-out images of 6 have near-duplicates"):
        prepare(folder, output, near_duplicates="refuse")
    assert not (output / "manifest.json").exists()
    assert listed(output) == PAIRS
    prepare(folder, output, near_duplicates="report")
    assert load_manifest(output).splits["validation"].examples == 6
    out = capsys.readouterr().out
    assert "shards finished" in out or "shard finished" in out


def test_a_data_set_without_any_is_accepted(folder, tmp_path, capsys):
    for name in ("1.jpg", "2.jpg"):
        (folder / "validation" / "cat" / name).unlink()
    prepare(folder, tmp_path / "out", near_duplicates="refuse")
    assert "near-duplicates: none of 4 held-out images" in capsys.readouterr().out
    assert listed(tmp_path / "out") == []
    page = write_inspection(tmp_path / "out", InspectOptions()).read_text()
    assert "has none of 4 held-out images" in page


def test_only_new_names_are_told(folder, tmp_path, capsys):
    prepare(folder, tmp_path / "out", near_duplicates="report", names="numbered")
    assert all(row[0].isdecimal() and row[2].isdecimal() for row in listed(tmp_path / "out"))
    assert ".jpg" not in (tmp_path / "out" / "near-duplicates.csv").read_text()


def test_the_command_looks_at_a_data_set_that_exists_in_several_processes(folder, tmp_path, capsys):
    output = tmp_path / "out"
    manifest = prepare(folder, output)
    assert main(["near-duplicates", str(output), "--processes", "2"]) == 0
    assert listed(output) == PAIRS
    assert load_manifest(output) == manifest
    shard = output / manifest.splits["train"].shards[0].file
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    assert main(["near-duplicates", str(output)]) == 3
    assert f"{shard}: cannot be read" in capsys.readouterr().err


def test_the_option_is_in_no_manifest(folder, tmp_path):
    words = ["--input", str(folder), "--output", str(tmp_path / "out"), "--processes", "1"]
    assert main(["prepare", "folder", *words, "--near-duplicates", "report"]) == 0
    assert "near" not in load_manifest(tmp_path / "out").origin.command
