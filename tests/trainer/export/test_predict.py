"""`ml-trainer predict`: its output, and its errors about images that it cannot read."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.support.data_sets.image_files import saved
from tests.trainer.support.made_run import make_exported_run
from trainer import cli
from trainer.export.predict import BATCH, as_text


@pytest.fixture(scope="module")
def run(digits_folder, tmp_path_factory):
    """The folder of a run with an export."""
    return make_exported_run(tmp_path_factory.mktemp("runs") / "run", digits_folder)


@pytest.fixture(scope="module")
def model(run):
    """Answers of the exported model, as (name, probability), most probable first."""
    exported = tf.saved_model.load(str(run / "export" / "saved_model"))

    def answers(path):
        found = exported.signatures["serving_default"](images=tf.constant([path.read_bytes()]))
        names = [name.decode() for name in found["class_names"].numpy()[0]]
        return list(zip(names, found["probabilities"].numpy()[0].tolist(), strict=True))

    return answers


def draw(path, seed, kind="PNG"):
    """Write an image of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 12, 3)).astype(np.uint8)
    path.write_bytes(saved(pixels, kind))
    return path


@pytest.fixture
def images(tmp_path):
    """A folder with images of several kinds, and other files, at several depths."""
    root = tmp_path / "images"
    draw(root / "b.PNG", 1)
    draw(root / "a.jpg", 2, "JPEG")
    draw(root / "below" / "deep" / "c.jpeg", 3, "JPEG")
    (root / "notes.txt").write_text("not an image")
    (root / "below" / "empty.png.txt").write_text("")
    return root


@pytest.fixture
def predict(capsys):
    """Run the command; its status, its lines and its errors."""

    def command(*args):
        status = cli.main(["predict", *map(str, args)])
        out, err = capsys.readouterr()
        return status, out.splitlines(), err

    return command


def test_an_image_gets_its_most_probable_classes_first(predict, model, run, images):
    status, lines, err = predict(images / "a.jpg", "--run", run)
    assert (status, err) == (0, "")
    answers = model(images / "a.jpg")
    wanted = [f"{probability:>9.2%}  {name}" for name, probability in answers]
    assert lines == [str(images / "a.jpg"), *wanted]
    assert len(wanted) == 5
    assert answers == sorted(answers, key=lambda answer: -answer[1])


def test_probabilities_are_aligned_whatever_their_size():
    classes = [{"class_name": n, "probability": p} for n, p in (("a", 1.0), ("long name", 0.00004))]
    lines = as_text(Path("a.png"), classes).splitlines()
    assert lines == ["a.png", "  100.00%  a", "    0.00%  long name"]


def test_a_folder_is_searched_for_images_in_order(predict, run, images):
    status, lines, _ = predict("--top", "1", images, "--run", run)
    assert status == 0
    assert [line for line in lines if not line.startswith(" ")] == [
        str(images / name) for name in ("a.jpg", "b.PNG", "below/deep/c.jpeg")
    ]
    assert len(lines) == 6


def test_images_of_all_formats_are_found_and_other_files_counted(predict, run, images):
    draw(images / "d.webp", 5, "WEBP")
    draw(images / "e.gif", 6, "GIF")
    (images / "more.TXT").write_text("")
    (images / ".hidden").write_text("")
    status, lines, err = predict("--top", "1", images, "--run", run)
    assert status == 0
    assert len(lines) == 10
    words = "note: left out 3 files whose suffix is not that of an image: 3 .txt"
    assert err.splitlines() == [words]


def test_a_name_that_looks_like_an_option_stands_after_two_dashes(
    predict, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "--top", 4)
    status, lines, _ = predict("--run", run, "--", "--top")
    assert status == 0
    assert lines[0] == "--top"


def test_json_has_a_line_for_each_image(predict, model, run, images):
    status, lines, _ = predict(images, "--run", run, "--json", "True", "--top", "2")
    assert status == 0
    found = [json.loads(line) for line in lines]
    assert [f["image"] for f in found][:2] == [str(images / "a.jpg"), str(images / "b.PNG")]
    for entry, path in zip(found, ("a.jpg", "b.PNG", "below/deep/c.jpeg"), strict=True):
        answers = [(c["class_name"], c["probability"]) for c in entry["classes"]]
        for (name, probability), (wanted_name, wanted) in zip(
            answers, model(images / path)[:2], strict=True
        ):
            assert name == wanted_name
            assert probability == pytest.approx(wanted, abs=1e-5)
        assert [str(c["class_id"]) for c in entry["classes"]] == [name for name, _ in answers]


def test_a_name_that_is_not_utf_8_is_printed_with_escapes(predict, run, tmp_path):
    path = draw(tmp_path / os.fsdecode(b"caf\xe9.png"), 1)
    status, lines, err = predict(path, "--run", run)
    assert (status, err, lines[0]) == (0, "", str(path).encode(errors="backslashreplace").decode())
    _, (line,), _ = predict(path, "--run", run, "--json")
    assert json.loads(line)["image"] == str(path)


def test_unreadable_images_are_named_and_the_others_predicted(predict, model, run, tmp_path):
    # More than a batch, with broken ones in the first and in the last.
    paths = [draw(tmp_path / f"{number:03d}.png", number) for number in range(BATCH + 3)]
    paths[5].write_text("years of work")
    paths[6].write_bytes(draw(tmp_path / "whole.png", 0).read_bytes()[:60])
    paths[BATCH + 1].unlink()
    broken = {str(paths[5]), str(paths[6]), str(paths[BATCH + 1])}
    status, lines, err = predict(*paths, "--run", run, "--json", "True", "--top", "1")
    assert status == 3
    assert f"error: {paths[5]}: is not an image of a known kind" in err
    assert f"error: {paths[6]}: cannot be decoded (" in err
    assert f"error: {paths[BATCH + 1]}: cannot be read (No such file or directory)" in err
    assert err.splitlines()[-1] == "error: 3 images of 35 could not be read; see the errors above"
    assert "Traceback" not in err
    found = [json.loads(line) for line in lines]
    readable = [path for path in paths if str(path) not in broken]
    assert [f["image"] for f in found] == [str(path) for path in readable]
    for entry, path in zip(found, readable, strict=True):
        assert entry["classes"][0]["class_name"] == model(path)[0][0]


def test_an_export_elsewhere_is_used_if_it_is_named(predict, run, images, tmp_path):
    shutil.copytree(run / "export", tmp_path / "copy")
    wanted = predict(images, "--run", run)
    assert predict(images, "--model", tmp_path / "copy") == wanted
    assert predict(images, "--model", tmp_path / "copy" / "saved_model") == wanted


def test_no_image_is_refused(predict, run, tmp_path):
    status, _, err = predict("--run", run)
    assert status == 2
    assert "name at least one image, or a folder with images (with make: IMAGES=...)" in err
    (tmp_path / "empty").mkdir()
    status, _, err = predict(tmp_path / "empty", "--run", run)
    assert status == 3
    assert f"{tmp_path / 'empty'}: has no images (.jpg, .jpeg, .png, .webp, .bmp, " in err


def test_no_export_is_refused_with_the_command_that_makes_it(predict, images, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    status, _, err = predict(images, "--run", tmp_path / "run")
    assert status == 4
    assert "there is no exported model" in err
    assert f"ml-trainer export --run {tmp_path / 'run'}" in err
    status, _, err = predict(images, "--run", tmp_path / "none")
    assert status == 4
    assert f"{tmp_path / 'none'}: is not a run folder" in err
    status, _, err = predict(images, "--model", tmp_path)
    assert status == 4
    assert f"{tmp_path}: there is no exported model; name the folder of an export" in err


def test_a_model_of_someone_elses_and_a_damaged_one_are_refused(predict, run, images, tmp_path):
    module = tf.Module()
    module.double = tf.function(lambda x: 2 * x, [tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "other"))
    status, _, err = predict(images, "--model", tmp_path / "other")
    assert status == 4
    assert "is not a model that `ml-trainer export` wrote" in err
    shutil.copytree(run / "export", tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "saved_model" / "variables")
    status, _, err = predict(images, "--model", tmp_path / "copy")
    assert status == 4
    assert "cannot be loaded" in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--top", "6"], "--top: 6, but this model returns 5 classes per image"),
        (["--top", "0"], "--top: 0 must be at least 1"),
    ],
)
def test_options_that_cannot_be_are_refused(predict, run, images, args, words):
    status, lines, err = predict(images, "--run", run, *args)
    assert (status, lines) == (2, [])
    assert words in err
