"""`ml-trainer fit`: the steps that it prints and runs, and where it stops."""

import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from common.errors import ConfigError
from tests.trainer.support.data_sets.image_folders import write_images
from trainer import api
from trainer.api import Run, fit
from trainer.cli import main
from trainer.data.manifest import load_manifest
from trainer.errors import DataError
from trainer.fitting import steps
from trainer.fitting.steps import StepError, preparation, run_step


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "my photos", {"cat": 40, "dog": 12}, side=70)
    return tmp_path / "my photos"


@pytest.fixture
def ran(monkeypatch):
    """Run every step but the training in this process."""
    ran = []

    def step(number, of, args):
        assert (number, of) == (len(ran) + 1, 4)
        ran.append(args)
        assert args[0] == "train" or main(args) == 0

    monkeypatch.setattr(api, "run_step", step)
    return ran


def test_a_folder_is_prepared_checked_shown_and_trained_on(pictures, ran, capsys):
    run = fit("my photos", mirror=True, options=["--epochs", "3", "--seed", "7"])
    assert [args[0] for args in ran] == ["prepare", "verify", "inspect", "train"]
    assert ran[0] == ["prepare", "folder", "--input", "my photos", "--output", "data/my photos-set"]
    assert (pictures.parent / "data/my photos-set/inspect.html").is_file()
    given = dict(zip(ran[3][1::2], ran[3][2::2], strict=True))
    assert given["--preset"] == "own-images"
    assert given["--data.dir"] == "data/my photos-set"
    assert (given["--epochs"], given["--seed"], given["--data.flip"]) == ("3", "7", "True")
    assert given["--imbalance.by"] == "weights"
    assert run.path.parent.name == "runs"
    assert given["--name"] == run.path.name
    said = capsys.readouterr().out
    assert "120 epochs at 64 pixels fit 47 images on a CPU" in said
    assert "the largest has 3.3 images for each of the smallest" in said


def test_a_data_set_is_trained_on_where_it_is(pictures, ran):
    fit(pictures, data="data/x", name="first")
    ran.clear()
    ran.append([])
    run = fit("data/x", name="first")
    assert [args[0] for args in ran[1:]] == ["verify", "inspect", "train"]
    assert run.path.as_posix() == "runs/first"


def test_options_of_the_preparation_are_those_that_are_given(tmp_path):
    given = {"table": None, "test": 0.2, "group_by": "(p[0-9]+)/", "max_rejected": "60"}
    kind, *words = preparation(tmp_path, tmp_path / "out", given)[1:]
    assert kind == "folder"
    assert words[4:] == ["--test", "0.2", "--group-by", "(p[0-9]+)/", "--max-rejected", "60"]


def test_a_folder_with_a_table_is_prepared_by_its_columns(pictures, ran):
    files = sorted(path.relative_to(pictures) for path in pictures.rglob("*.*"))
    rows = [f"{file};{file.parent};P{number // 4}" for number, file in enumerate(files)]
    Path("labels.csv").write_text("\n".join(["Datei;Diagnose;Patient", *rows]))
    fit(pictures, table="labels.csv", group_column="Patient", test=0.2)
    assert ran[0][:2] == ["prepare", "table"]
    assert ran[0][6:] == ["--table", "labels.csv", "--group-column", "Patient", "--test", "0.2"]
    manifest = load_manifest(Path("data/my photos-set"))
    assert manifest.classes == ("cat", "dog")
    assert {name for name, split in manifest.splits.items() if split.examples} == {
        *("train", "validation", "test")
    }


def test_images_of_one_class_end_before_a_run(tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "one", {"cat": 20}, side=70)
    with pytest.raises(DataError, match="all training images are of the class 'cat'"):
        fit("one")
    assert "train" not in [args[0] for args in ran]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"options": ["--epoch", "3"]}, "--epoch: unknown option; did you mean --epochs?"),
        ({"options": ["--epochs", "x"]}, "--epochs: 'x' is not a whole number"),
        ({"options": ["--epochs"]}, "--epochs: needs a value"),
        ({"options": ["--epochs", 0]}, "--epochs: 0 must be"),
        ({"options": ["3"]}, "3: unexpected argument"),
        ({"options": "--epochs 3"}, "is a text; give a list: ['--epochs', '3']"),
        ({"name": "a b"}, "--name: 'a b'"),
        ({"weights": "none.safetensors"}, "--weights: none.safetensors: does not exist"),
    ],
)
def test_an_option_that_no_run_accepts_ends_before_the_first_step(pictures, ran, given, problem):
    with pytest.raises(ConfigError) as raised:
        fit(pictures, **given)
    assert problem in str(raised.value)
    assert ran == []


def test_an_option_is_not_refused_for_one_of_another_preset(pictures, ran):
    # The warm-up of the preset for which nothing is known yet takes two epochs.
    fit(pictures, options=["--epochs", 2, "--optimizer.warmup-epochs", 1])
    assert ran[3][ran[3].index("--epochs") + 1] == "2"


class Model(api.Model):
    """A model that answers with the size of each image."""

    _exported = SimpleNamespace(signatures={"serving_default": None})


@pytest.fixture
def model(monkeypatch, tmp_path):
    def classify(signature, contents, facts):
        for content in contents:
            file = io.BytesIO(content) if isinstance(content, bytes) else content
            with Image.open(file) as image:
                yield content, [{"class_name": f"{image.mode} {image.size}", "probability": 1.0}]

    answers = {"trainer.export.predict:classify_files": classify}
    monkeypatch.setattr(api, "load_object", answers.__getitem__)
    monkeypatch.setattr(api, "export_facts", lambda folder: {})
    return Model(tmp_path)


@pytest.mark.parametrize(
    ("shape", "kind", "classes"),
    [
        ((5, 6), "uint8", ["L (6, 5)"]),
        ((5, 6), "uint16", ["I;16 (6, 5)"]),
        ((5, 6, 3), "uint8", ["RGB (6, 5)"]),
        ((5, 6, 4), "uint8", ["RGBA (6, 5)"]),
        ((2, 5, 6, 3), "uint8", ["RGB (6, 5)"] * 2),
        ((2, 5, 6), "uint8", ["L (6, 5)"] * 2),
        ((0, 5, 6), "uint8", []),
    ],
)
def test_an_array_is_one_image_or_several(model, shape, kind, classes):
    pixels = np.zeros(shape, kind)
    assert [answer.class_name for answer in model.predict(pixels)] == classes
    if len(classes) == 1:
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "PNG")
        assert [answer.class_name for answer in model.predict(file.getvalue())] == classes
        assert [answer.class_name for answer in model.predict([pixels, pixels])] == classes * 2


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((5, 6), "float32"),
        ((5, 6, 3), "uint16"),
        ((5, 6, 3), "float64"),
        ((6,), "uint8"),
        ((), "uint8"),
    ],
)
def test_an_array_that_is_not_an_image_is_named(model, shape, kind):
    with pytest.raises(DataError, match=f"an array of {kind} .* is not an image; give uint8 or"):
        model.predict(np.zeros(shape, kind))


def test_a_step_that_fails_ends_with_its_status_and_says_to_mend_the_cause(tmp_path, capfd):
    missing = str(tmp_path / "missing")
    with pytest.raises(StepError, match=r"; mend the cause and run the same fit again$") as raised:
        run_step(2, 4, ["verify", missing])
    assert raised.value.exit_code == DataError.exit_code
    said = capfd.readouterr()
    assert f"ml-trainer verify {shlex.quote(missing)}" in said.out
    assert f"error: {missing}" in said.err


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [
        (4, 1, "mend the cause and run the same fit again"),
        (4, 2, "mend the cause and run the same fit again"),
        (4, 8, "to continue from it, run: ml-trainer train --name 'a b'"),
        (4, 9, "to continue from it, run: ml-trainer train --name 'a b'"),
        (4, 138, "to continue from it, run: ml-trainer train --name 'a b'"),
        (1, 1, "mend the cause and run the same fit again"),
        (1, 130, "to continue, run the same fit again"),
    ],
)
def test_the_last_line_is_what_can_succeed(monkeypatch, number, status, words):
    monkeypatch.setattr(steps, "installed", lambda script: script)
    monkeypatch.setattr(steps, "_program", lambda _: [*("sh", "-c"), f"exit {status}"])
    with pytest.raises(StepError) as raised:
        run_step(number, 4, ["train", "--name", "a b"])
    assert str(raised.value) == f"step {number} of 4 ended with status {status}; {words}"
    assert raised.value.exit_code == status


def test_a_stop_signal_reaches_the_step(monkeypatch):
    code = "import os, signal; os.kill(os.getppid(), signal.SIGTERM); signal.pause()"
    monkeypatch.setattr(steps, "_program", lambda args: [sys.executable, "-c", code, *args])
    with pytest.raises(StepError, match="status 143; to continue, run the same fit") as raised:
        run_step(1, 4, ["train"])
    assert raised.value.exit_code == 128 + 15


@pytest.mark.slow
def test_three_calls_lead_from_a_folder_to_predictions(pictures, capfd):
    shortened = ["--epochs", "2", "--log.report", "True", "--restarts", "0", "--ranks", "1"]
    code = (
        "import sys, trainer, numpy\n"
        "assert 'tensorflow' not in sys.modules\n"
        f"run = trainer.fit('my photos', options={shortened!r})\n"
        "assert 'tensorflow' not in sys.modules\n"
        "model = trainer.load(run.path)\n"
        "file = sorted(__import__('pathlib').Path('my photos/cat').iterdir())[0]\n"
        "pixels = numpy.zeros((80, 90, 3), 'uint8')\n"
        "found = model.predict([file, str(file), file.read_bytes(), pixels, 'missing.png'])\n"
        "print('FOUND', [one.class_name for one in found], found[-1].error)\n"
        "assert found[0] == found[1]\n"
        "assert found[0].classes == found[2].classes and not found[2].image\n"
        "assert model.predict('my photos/cat')[0] == found[0]\n"
        "print('SAME', trainer.evaluate(run.path)['top1'] == run.result['top1'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names, error = re.search(r"FOUND \[(.*)\] (.*)", done.stdout).groups()
    assert set(re.findall(r"'(\w*)'", names)) <= {"cat", "dog", ""}
    assert error == "cannot be read (No such file or directory)"
    assert "SAME True" in done.stdout
    # TensorFlow says nothing of its own when it is loaded.
    assert "oneDNN" not in done.stderr
    assert "cpu_feature_guard" not in done.stderr
    assert Run(next(path for path in (pictures.parent / "runs").iterdir())).report.is_file()
