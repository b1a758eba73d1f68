"""The training that a preparation suggests fits the images, and its words run as printed."""

import re
import shlex

import pytest

from common.program import installed
from tests.trainer.support.data_sets.image_folders import picture, write_images
from tests.trainer.support.data_sets.imagenet_files import (
    make_train,
    make_truth,
    make_validation,
    tar,
)
from tests.trainer.support.data_sets.parquet_files import pictures, write_split
from trainer.cli import main
from trainer.data.manifest import SIDES, Manifest, Normalization, Origin, Sides, Split
from trainer.fitting.choice import Facts
from trainer.fitting.suggestion import command, facts_of, suggest
from trainer.leaves import TASKS
from trainer.presets import parse_train
from trainer.tasks.classification.leaf import CLASSIFICATION

FITTING = {
    1: [("digits", 16)],
    16: [("digits", 32)],
    32: [("digits", 32)],
    48: [("digits", 48)],
    64: [("own-images", 64)],
    96: [("own-images", 64)],
    128: [("own-images", 64), ("images-224-finetune", 128), ("images-224", 128)],
    320: [("own-images", 64), ("images-224-finetune", 224), ("images-224", 224)],
}


@pytest.mark.parametrize("short", FITTING)
def test_preset_and_size_follow_from_the_median_short_side(short):
    found = suggest(Facts(50_000, short), "d", CLASSIFICATION)
    assert [(config.preset, config.model.image_size) for config in found] == FITTING[short]
    stems = {config.model.stem for config in found}
    assert stems == ({"3x3"} if short < 64 else {"7x7"})


def test_the_median_short_side_is_the_lower_bound_of_its_bin():
    def facts(*sides):
        counts = [0] * len(SIDES)
        for side in sides:
            counts[max(n for n, lower in enumerate(SIDES) if lower <= side)] += 1
        return facts_of(manifest_with(Sides(tuple(counts), tuple(counts))))

    assert facts(100, 100, 4000).short == 96
    assert facts(28, 28, 375).short == 16
    assert facts_of(manifest_with(Sides())).short is None


@pytest.mark.parametrize(
    ("encodings", "mean", "photographs"),
    [
        (("JPEG",), (120.0, 110.0, 90.0), True),
        (("JPEG",), (120.0, 120.0, 120.0), False),
        (("JPEG", "PNG"), (120.0, 110.0, 90.0), False),
    ],
)
def test_jpegs_in_colour_are_photographs(encodings, mean, photographs):
    assert facts_of(manifest_with(Sides(), encodings, mean)).photographs == photographs


def manifest_with(sides, encodings=("JPEG",), mean=(120.0, 110.0, 90.0)):
    split = Split((), (3, 2), encodings, sides)
    normalization = Normalization(mean, (60.0, 60.0, 60.0))
    return Manifest(("a", "b"), normalization, {"train": split}, Origin("prepare"))


@pytest.mark.parametrize(("images", "end"), [(99_999, ""), (100_000, "-node"), (10**6, "-nodes")])
def test_many_images_are_for_many_gpus(images, end):
    _, *large = suggest(Facts(images, 320), "d", CLASSIFICATION)
    assert [config.preset for config in large] == [f"images-224-finetune{end}", f"images-224{end}"]
    assert [config.model.weights is None for config in large] == [False, True]


@pytest.mark.parametrize("photographs", [False, True])
def test_only_photographs_are_mirrored_and_cropped_to_a_part_on_gpus(photographs):
    facts = Facts(3000, 320, photographs=photographs)
    for config in suggest(facts, "d", CLASSIFICATION):
        assert config.data.flip == photographs
        assert config.data.min_crop_area == (0.35 if photographs else 0.75)


def test_images_that_were_not_measured_are_not_taken_for_small_ones():
    found = suggest(Facts(1000, None), "d", CLASSIFICATION)
    assert [config.preset for config in found] == ["own-images"]


@pytest.mark.parametrize(
    ("images", "batch"), [(10, 4), (100, 8), (200, 16), (300, 32), (10**6, 32)]
)
def test_a_batch_is_small_compared_with_the_images(images, batch):
    (config,) = suggest(Facts(images, None), "d", CLASSIFICATION)
    assert config.batch_size == batch
    assert images < 100 or images / (batch * config.ranks) >= 8


@pytest.mark.parametrize("folder", ["data/images", "a folder/with 'quotes'"])
@pytest.mark.parametrize("task", TASKS.values())
@pytest.mark.parametrize("short", FITTING)
def test_the_command_line_gives_the_same_configuration(short, task, folder):
    for config in suggest(Facts(500, short, (400, 100)), folder, task):
        words = shlex.split(command(config))
        assert words[:2] == [installed("ml-trainer"), "train"]
        assert parse_train(words[2:]) == config


def write_tars(folder):
    folder.mkdir()
    files = {}
    for number in range(30):
        files |= {f"{number}.jpg": picture(number, 30), f"{number}.cls": b"%d" % (number % 3)}
    (folder / "0.tar").write_bytes(tar(files))


KINDS = {
    "folder": ["--input", "in/photos", "--output", "out"],
    "folder of small images": ["--input", "in/small", "--output", "out"],
    "imagenet": ["--train", "in/ILSVRC2012_img_train.tar", "--validation",
                 "in/ILSVRC2012_img_val.tar", "--ground-truth", "in/truth.txt", "--output", "out"],
    "parquet": ["--input", "in/parquet"],
    "parquet elsewhere": ["--input", "in/parquet", "--output", "out"],
    "webdataset": ["--input", "in/tars", "--output", "out"],
    "digits": ["--output", "out"],
    "synthetic": ["--output", "out", "--images", "60"],
    "tfrecords": ["--input", "out"],
}  # fmt: skip


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs") / "in"
    write_images(folder / "photos", {"cat": 20, "dog": 20}, side=300)
    write_images(folder / "small", {"cat": 20, "dog": 20})
    write_split(folder / "parquet", "train", pictures(60))
    write_split(folder / "parquet", "validation", pictures(12, 100))
    write_tars(folder / "tars")
    make_train(folder, "archive")
    make_validation(folder, "archive")
    make_truth(folder, "synsets").rename(folder / "truth.txt")
    return folder


def commands(text):
    return [
        shlex.split(line) for line in re.findall(r"^    (\S*ml-trainer .*)$", text, re.MULTILINE)
    ]


def prepare(kind, inputs, folder, capsys, monkeypatch):
    """Prepare, and return the words of the commands that are printed."""
    monkeypatch.chdir(folder)
    (folder / "in").symlink_to(inputs)
    options = KINDS[kind]
    if kind == "tfrecords":
        assert main(["prepare", "folder", *KINDS["folder"]]) == 0
        (folder / "out" / "manifest.json").unlink()
    capsys.readouterr()
    more = ["--processes", "1"] if kind not in ("digits", "synthetic") else []
    assert main(["prepare", kind.split()[0], *options, *more]) == 0
    return commands(capsys.readouterr().out)


@pytest.mark.parametrize("kind", KINDS)
def test_what_every_preparation_prints_is_a_training_that_can_start(
    kind, inputs, tmp_path, capsys, monkeypatch
):
    found = prepare(kind, inputs, tmp_path, capsys, monkeypatch)
    assert len(found) == (3 if kind in ("folder", "tfrecords", "synthetic") else 1)
    for words in found:
        assert main([*words[1:], "--dry-run"]) == 0
        told = dict(re.findall(r"^(\S.*?)  +(.*)$", capsys.readouterr().out, re.MULTILINE))
        assert told["data.dir"] == ("in/parquet" if kind == "parquet" else "out")
        assert int(told["training images"].replace(",", "")) > 0
        assert float(told["steps per epoch"]) > 1


def test_large_images_are_told_rate_epochs_and_the_command_of_their_cost(
    inputs, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").symlink_to(inputs)
    assert main(["prepare", "folder", *KINDS["folder"], "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert "from resnet50.safetensors, any file of --model.weights: learning rate 0.01 per" in said
    assert "from random weights: learning rate 0.1 per 256 images, at most 120 epochs:" in said
    assert "make plan PRESET=images-224 'ARGS=--data out'" in said


def test_a_data_set_of_one_class_is_told_to_be_untrainable(tmp_path, capsys, monkeypatch):
    write_images(tmp_path / "in", {"cat": 20})
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "folder", "--input", "in", "--output", "out"]) == 0
    out = capsys.readouterr().out
    assert "note: out: all training images are of the class 'cat'" in out
    assert not commands(out)


def test_a_job_of_azure_prints_no_command_as_its_folder_is_gone_when_it_ends(
    inputs, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("AZUREML_RUN_ID", "job")
    assert prepare("folder", inputs, tmp_path, capsys, monkeypatch) == []
