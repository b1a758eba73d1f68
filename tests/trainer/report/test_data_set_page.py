"""The page about a data set: its inputs, and its contents."""

import base64
import io
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from common.errors import ConfigError
from tests.trainer.support.command import run_without_tensorflow
from tests.trainer.support.data_sets.written_set import colour, picture, write_set
from tests.trainer.support.reader import Reader, loaded
from tests.trainer.support.written_run import HOSTILE
from trainer.cli import main
from trainer.data.example import from_example
from trainer.data.formats.tfrecord import read_shard
from trainer.data.manifest import Origin, Sides, load_manifest
from trainer.errors import DataError
from trainer.report.contact_sheet import take_samples
from trainer.report.data_set_page import write_inspection
from trainer.report.options import InspectOptions


@pytest.fixture
def inspected(tmp_path):
    """A function that inspects a data set and gives the page."""

    def inspect(folder, **options):
        output = tmp_path / "page.html"
        write_inspection(folder, InspectOptions(output=str(output), **options))
        return output.read_text()

    return inspect


def cards(page):
    """The text of each class's card, by the class's name."""
    found = {}
    for card in page.split('<article class="class card">')[1:]:
        reader = Reader(card.split("</article>")[0])
        found[reader.texts[0]] = (reader.text, reader.all("img"))
    return found


def stored(folder, sample):
    """The record that a sample names."""
    shard, number = sample.where.split(", record ")
    return from_example([*read_shard(folder / shard)][int(number)])


# 1. Inputs.


def test_samples_are_the_records_that_they_name(digits_folder):
    manifest = load_manifest(digits_folder)
    samples = take_samples(digits_folder, manifest, 8)
    assert [len(found) for found in samples.of_class] == [8] * 10
    for label, found in enumerate(samples.of_class):
        assert len({sample.name for sample in found}) == 8
        for sample in found:
            record = stored(digits_folder, sample)
            assert (record.label, record.filename) == (label, sample.name)
            assert sample.size == (8, 8)


def test_samples_come_from_all_over_the_shards_without_reading_all_of_them(digits_folder):
    manifest = load_manifest(digits_folder)
    samples = take_samples(digits_folder, manifest, 8)
    shards = {sample.where.split(",")[0] for found in samples.of_class for sample in found}
    assert len(shards) >= 4
    assert samples.looked_at < 400


def test_every_class_is_met_where_a_class_follows_the_other(tmp_path):
    manifest = write_set(tmp_path / "set", [40] * 50, [1] * 50, by_class=True)
    samples = take_samples(tmp_path / "set", manifest, 3)
    assert [len(found) for found in samples.of_class] == [3] * 50
    # Neighbours may be alike, so they are not all from one place.
    assert samples.looked_at > 500


def test_a_class_with_fewer_images_shows_all_of_them(tmp_path):
    manifest = write_set(tmp_path / "set", [100, 2, 1], [1, 1, 1])
    assert [len(f) for f in take_samples(tmp_path / "set", manifest, 8).of_class] == [8, 2, 1]


def test_a_rare_class_is_not_sought_for_ever(tmp_path, inspected):
    one = picture(0, 0)
    # In the order of classes, the only image of the second is the 64th of a shard.
    counts = [63, 1, 2936]
    write_set(tmp_path / "set", counts, [1] * 3, by_class=True, make=lambda *_: one)
    text, images = cards(inspected(tmp_path / "set"))["class 1"]
    assert "no sample among the 2,000 images read" in text
    assert images == []


def test_labels_begin_where_the_manifest_says(tmp_path, inspected):
    write_set(tmp_path / "set", [5, 5, 5], [1, 1, 1], first_label=1)
    found = cards(inspected(tmp_path / "set"))
    for label in range(3):
        _, images = found[f"class {label}"]
        assert len(images) == 5
        with Image.open(io.BytesIO(decode(images[0]))) as image:
            shown = np.asarray(image, int)[image.height // 2, image.width // 2]
        assert np.abs(shown - colour(label)).max() < 12


def test_a_label_that_is_no_class_is_named(tmp_path):
    folder = tmp_path / "set"
    manifest = write_set(folder, [5, 5], [1, 1])
    write_set(tmp_path / "other", [5, 5], [1, 1], first_label=1)
    for shard in manifest.splits["train"].shards:
        shutil.copy(tmp_path / "other" / shard.file, folder)
    with pytest.raises(DataError, match="record 1: label 2 is not a class, 0 to 1"):
        take_samples(folder, manifest, 8)


def test_a_damaged_record_is_named_with_what_finds_all_of_them(digits_folder, tmp_path):
    folder = tmp_path / "a folder"
    shutil.copytree(digits_folder, folder)
    shard = folder / load_manifest(folder).splits["train"].shards[0].file
    data = bytearray(shard.read_bytes())
    first = len(next(read_shard(shard))) + 16
    data[first + 100] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DataError) as caught:
        write_inspection(folder, InspectOptions())
    assert f"{shard}, record 1: its data do not match their checksum" in str(caught.value)
    assert f"ml-trainer verify '{folder}'" in str(caught.value)
    assert not (folder / "inspect.html").exists()


def test_an_image_that_cannot_be_decoded_is_no_failure(tmp_path, inspected):
    def make(label, number):
        whole = picture(label, number)
        return whole[: len(whole) // 2] if (label, number) == (1, 0) else whole

    write_set(tmp_path / "set", [5, 5], [1, 1], make=make)
    page = inspected(tmp_path / "set")
    text, images = cards(page)["class 1"]
    assert "train/1/0.jpg cannot be decoded" in text
    assert len(images) == 4
    assert "1 sample cannot be decoded; ml-trainer verify" in Reader(page).text


# 2. Contents.


def decode(image):
    return base64.b64decode(image["src"].removeprefix("data:image/jpeg;base64,"))


def test_a_tiny_image_is_enlarged_pixel_by_pixel(digits_folder, inspected):
    manifest = load_manifest(digits_folder)
    sample = take_samples(digits_folder, manifest, 1).of_class[3][0]
    with Image.open(io.BytesIO(stored(digits_folder, sample).encoded)) as image:
        original = np.asarray(image, int)
    with Image.open(io.BytesIO(sample.thumbnail)) as image:
        assert image.format == "JPEG"
        assert image.width == image.height >= 48
        middles = np.asarray(image, int)[image.height // 16 :: image.height // 8, :]
    assert np.abs(middles[:, image.width // 16 :: image.width // 8] - original).max() < 40


def test_a_large_image_is_shrunk_and_keeps_its_shape(tmp_path, inspected):
    write_set(tmp_path / "set", [3, 0], [1, 1])
    images = cards(inspected(tmp_path / "set"))["class 0"][1]
    titles = {image["title"].split("\n")[0]: image for image in images}
    with Image.open(io.BytesIO(decode(titles["train/0/2.jpg"]))) as image:
        assert image.size == (200, 150)
    assert "200 x 150 pixels" in titles["train/0/2.jpg"]["title"]
    assert "train-00001-of-00003.tfrecord, record 0" in titles["train/0/1.jpg"]["title"]


def test_the_digits_are_counted(digits_folder, inspected):
    page = inspected(digits_folder, per_class=3)
    manifest, text = load_manifest(digits_folder), Reader(page).text
    for said in (
        "training images 1,437 8 shards",
        "held-out images 360 2 shards",
        "classes 10 of 138 to 147 training images",
        f"version {manifest.version}",
        manifest.origin.command,
        f"red {manifest.normalization.mean[0]:.1f}, green",
        "encoded as PNG",
    ):
        assert said in text
    # Its images are the only thing that the page says of itself.
    assert text.count("Note") == 1
    images = Reader(page).all("img")
    assert all(re.fullmatch(r"\d: digit-\d+\.png", image["alt"]) for image in images)
    assert {name: len(images) for name, (_, images) in cards(page).items()} == {
        str(digit): 3 for digit in range(10)
    }
    for digit, of_class in enumerate(zip(*of_splits(manifest), strict=True)):
        assert f" {digit} {' '.join(map(str, of_class))} " in text
    assert "pixels short side long side 1-15 1,797 1,797" in text


def of_splits(manifest):
    return [manifest.splits[name].class_counts for name in ("train", "validation")]


def test_a_page_is_the_same_each_time_and_loads_nothing(digits_folder, inspected):
    page = inspected(digits_folder)
    assert inspected(digits_folder) == page
    assert loaded(page) == []


def test_classes_that_are_empty_or_much_smaller_are_pointed_out(tmp_path, inspected):
    write_set(tmp_path / "set", [23, 0, 2], [1, 1, 0], names=["cat", "dog", "emu"])
    page = inspected(tmp_path / "set")
    text = Reader(page).text
    assert "1 class has no training images: dog." in text
    assert "1 class has no held-out images: emu." in text
    assert "has 12 times as many training images as the smallest: cat (23), emu (2)." in text
    assert "0 training, 1 held-out no training images" in cards(page)["dog"][0]


def test_many_classes_keep_the_page_small_and_can_be_searched(tmp_path, inspected):
    counts = [max(1, 300 // (place + 1)) for place in range(300)]
    write_set(tmp_path / "set", counts, [1] * 300)
    page = inspected(tmp_path / "set")
    reader = Reader(page)
    assert len(reader.all("img")) == sum(min(count, 2) for count in counts) <= 800
    assert len(page) < 2_000_000
    assert "Up to 2 training images of each class" in reader.text
    assert "Not 8, as there are 300 classes." in reader.text
    assert "class 0 300 class 1 150" in reader.text.split("The 10 largest classes")[1]
    assert "class 299 1 class 298 1" in reader.text.split("The 10 smallest classes")[1]
    box = reader.all("input")[0]
    assert [label["for"] for label in reader.all("label") if "for" in label] == [box["id"]]
    (label,) = [attrs["aria-label"] for attrs in reader.all("svg") if "aria-label" in attrs]
    assert "training images: from 300 (class 0) to 1 (class 299), median 2." in label


def test_what_is_known_of_where_the_data_came_from_is_shown(tmp_path, inspected):
    treatment = {"copied untouched": 8, "converted from CMYK": 2, "rejected": 12}
    origin = Origin("ml-trainer prepare folder --input a", "12ab", treatment)
    write_set(tmp_path / "set", [5, 5], [1, 1], origin=origin)
    lines = "".join(f'train,a/{number}.jpg,"torn, at {number}"\n' for number in range(12))
    (tmp_path / "set" / "rejected.csv").write_text(f"split,name,reason\n{lines}")
    text = Reader(inspected(tmp_path / "set")).text
    assert "copied untouched 8 converted from CMYK 2 rejected 12" in text
    assert "12 files rejected, the first 10, as in rejected.csv" in text
    assert "train a/9.jpg torn, at 9" in text
    assert "a/10.jpg" not in text


@pytest.mark.parametrize("content", [b"\xff\xfe\n\x00", b"split,name\ntrain,a\n", b""])
def test_an_unusable_list_of_rejected_files_is_no_failure(tmp_path, inspected, content):
    write_set(tmp_path / "set", [5, 5], [1, 1])
    (tmp_path / "set" / "rejected.csv").write_bytes(content)
    assert cards(inspected(tmp_path / "set"))


def test_sizes_that_are_not_known_are_not_drawn(tmp_path, inspected):
    folder = tmp_path / "set"
    manifest = write_set(folder, [5, 5], [1, 1])
    for split in manifest.splits.values():
        object.__setattr__(split, "sides", Sides())
    manifest.save(folder)
    page = inspected(folder)
    assert "Class balance" in page
    assert "Image sizes" not in page


def test_hostile_names_are_texts(tmp_path, inspected):
    origin = Origin(HOSTILE, HOSTILE, {HOSTILE: 1})
    folder = tmp_path / "<img src=x onerror=alert(2)>"
    names = [HOSTILE, *(f"class {number}" for number in range(24))]
    for counts in ([200, 5], [200, *[5] * 24]):
        write_set(folder, counts, [0, *counts[1:]], names=names[: len(counts)], origin=origin)
        (folder / "rejected.csv").write_text(f"split,name,reason\n,{HOSTILE},x\n")
        page = inspected(folder)
        reader = Reader(page)
        assert reader.text.count(HOSTILE) >= 6
        assert len(reader.all("script")) == (len(counts) > 20)
        assert all("onerror" not in attrs for _, attrs in reader.elements)
        assert all(image["src"].startswith("data:image/") for image in reader.all("img"))
        assert "<script>alert" not in page
        shutil.rmtree(folder)


# 3. The command.


def test_the_command_writes_into_the_folder_and_never_loads_tensorflow(tmp_path):
    write_set(tmp_path / "set", [5, 5], [1, 1])
    page = tmp_path / "set" / "inspect.html"
    args = ["inspect", str(tmp_path / "set"), "--per-class", "2"]
    assert run_without_tensorflow(*args).split() == [str(page)]
    assert page.read_text().count("<img") == 4
    assert not list(tmp_path.rglob("*.partial"))


def test_a_folder_that_cannot_be_written_to_needs_an_output(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "set"
    write_set(folder, [5, 5], [1, 1])
    # Permissions do not stop root.
    monkeypatch.setattr("os.access", lambda path, _: path != folder)
    assert main(["inspect", str(folder)]) == ConfigError.exit_code
    assert f"--output: {folder} is not writable; choose a file" in capsys.readouterr().err
    assert main(["inspect", str(folder), "--output", str(tmp_path / "new" / "page.html")]) == 0
    assert (tmp_path / "new" / "page.html").is_file()


def test_a_folder_without_a_data_set_or_training_images_is_named(tmp_path, capsys):
    assert main(["inspect", str(tmp_path)]) == DataError.exit_code
    assert f"{tmp_path}: there is no manifest.json" in capsys.readouterr().err
    write_set(tmp_path / "set", [0, 0], [1, 1])
    assert main(["inspect", str(tmp_path / "set")]) == DataError.exit_code
    assert "has no images in the split 'train'" in capsys.readouterr().err
