"""`ml-trainer score`: files of scores, which an interruption does not change."""

import csv
import errno
import json
import os
import signal
import threading
import time

import pyarrow.parquet
import pytest

from common.files import write_atomically
from tests.trainer.export.test_predict import draw
from tests.trainer.support.command import run_trainer, start_trainer
from tests.trainer.support.made_run import make_exported_run
from trainer import cli
from trainer.scoring import batch, unit

IMAGES = 70


@pytest.fixture(scope="module")
def run(digits_folder, tmp_path_factory):
    """The folder of a run with an export."""
    return make_exported_run(tmp_path_factory.mktemp("runs") / "run", digits_folder)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder of images at several depths, of which two cannot be read."""
    root = tmp_path_factory.mktemp("images")
    for number in range(IMAGES):
        draw(root / f"{number % 3}" / f"{number:03d}.png", number)
    (root / "1" / "004.png").write_bytes(b"years of work")
    (root / "2" / "005.png").write_bytes(draw(root / "whole.png", 5).read_bytes()[:60])
    (root / "notes.txt").write_text("no image")
    return root


@pytest.fixture
def score(run, images, capsys):
    """Run the command in this process; its status, its output and its errors."""

    def command(*args, source=images):
        status = cli.main(["score", "--run", str(run), "--input", str(source), *map(str, args)])
        out, err = capsys.readouterr()
        return status, out, err

    return command


@pytest.fixture(scope="module")
def undisturbed(run, images, tmp_path_factory):
    """The files of the command if nothing happens, with two processes."""
    output = tmp_path_factory.mktemp("undisturbed") / "scores"
    done = run_trainer(*arguments(run, images, output), "--processes", "2", cwd=images)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{output}: 71 images in 8 files" in done.stdout
    assert "warning: 2 images could not be read; see the column error" in done.stderr
    return content(output)


def arguments(run, images, output):
    where = ["--run", str(run), "--input", str(images), "--output", str(output)]
    return ["score", *where, "--images-per-file", "10"]


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_each_image_has_a_row_with_the_classes_of_predict(score, run, images, tmp_path, capsys):
    output = tmp_path / "scores"
    status, _, _ = score("--output", output, "--processes", "1", "--images-per-file", "40")
    assert status == 0
    cli.main(["predict", "--run", str(run), "--json", "True", "--", str(images)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = {os.path.relpath(line["image"], images): line["classes"] for line in lines}
    rows = pyarrow.parquet.read_table(output).to_pylist()
    assert [row["image"] for row in rows] == sorted(row["image"] for row in rows)
    assert len(rows) == IMAGES + 1
    for row in rows:
        if row["image"] not in wanted:
            continue
        assert row["error"] is None
        for place, entry in enumerate(wanted[row["image"]]):
            end = f"_{place + 1}" if place else ""
            assert row[f"class_id{end}"] == entry["class_id"]
            assert row[f"class_name{end}"] == entry["class_name"]
            assert row[f"probability{end}"] == pytest.approx(entry["probability"], abs=1e-6)
    strange = {row["image"]: row for row in rows if row["image"] not in wanted}
    assert strange.keys() == {"1/004.png", "2/005.png"}
    assert "is not an image of a known kind" in strange["1/004.png"]["error"]
    assert all(row["error"] and row["class_id"] is None for row in strange.values())


def test_csv_has_the_same_rows(score, tmp_path):
    score("--output", tmp_path / "a", "--processes", "1")
    score("--output", tmp_path / "b", "--processes", "1", "--format", "csv")
    table = pyarrow.parquet.read_table(tmp_path / "a").to_pylist()
    with (tmp_path / "b" / "part-00000.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(table)
    for row, wanted in zip(rows, table, strict=True):
        assert row.keys() == wanted.keys()
        assert row["image"] == wanted["image"]
        assert row["error"] == (wanted["error"] or "")
        assert row["class_name"] == (wanted["class_name"] or "")
        if wanted["probability"] is not None:
            assert float(row["probability"]) == pytest.approx(wanted["probability"], rel=1e-6)


def test_the_summary_says_what_was_scored_with_which_model(undisturbed, run):
    facts = json.loads((run / "export" / "export.json").read_text())
    summary = json.loads(undisturbed["_scores.json"])
    assert (summary["images"], summary["unreadable"], summary["files"]) == (71, 2, 8)
    assert summary["model"]["run"] == facts["run"]
    assert summary["model"]["class_names"] == facts["class_names"]
    described = json.loads(undisturbed["_part-00000.json"])
    assert described["bytes"] == len(undisturbed["part-00000.parquet"])
    assert (described["images"], described["identity"]) == (10, summary["identity"])


def test_parts_on_several_machines_write_the_same(score, tmp_path, undisturbed):
    size = ["--images-per-file", "10", "--processes", "1"]
    output = tmp_path / "scores"
    status, out, _ = score("--output", output, *size, "--part", "1", "--parts", "2")
    assert (status, out.splitlines()[-1]) == (
        0,
        f"{output}: part 1 of 2 is complete; 4 of 8 files are written",
    )
    assert not (output / "_scores.json").exists()
    score("--output", output, *size, "--part", "0", "--parts", "2")
    assert content(output) == undisturbed


def test_machines_that_mpirun_started_list_once_and_the_first_ends_last(
    run, images, tmp_path, undisturbed
):
    output = tmp_path / "scores"
    command = [*arguments(run, images, output), "--processes", "1"]
    # The images of the second machine could be read, but not listed.
    (tmp_path / "unlisted").mkdir()
    for path in images.iterdir():
        (tmp_path / "unlisted" / path.name).symlink_to(path)
    elsewhere = [*arguments(run, tmp_path / "unlisted", output), "--processes", "1"]

    def start(rank, *command):
        env = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}
        return start_trainer(*command, cwd=tmp_path, env=env)

    second = start(1, *elsewhere)
    first = start(0, *command)
    (said, _), (also, _) = first.communicate(timeout=300), second.communicate(timeout=300)
    assert (first.returncode, second.returncode) == (0, 0), said + also
    assert f"{output}: 71 images in 8 files" in said
    assert f"{output}: part 1 of 2 is complete" in also
    assert content(output) == undisturbed


def test_the_first_of_the_machines_that_mpirun_started_writes_the_summary_alone(
    score, tmp_path, undisturbed, monkeypatch
):
    output = tmp_path / "scores"
    whole = undisturbed["_part-00001.json"]
    for name, data in undisturbed.items():
        write_atomically(output / name, data)
    summary, late = output / "_scores.json", output / "_part-00001.json"
    summary.unlink()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    status, said, _ = score("--output", output, "--images-per-file", "10")
    assert (status, summary.exists()) == (0, False)
    assert f"{output}: part 1 of 2 is complete; 8 of 8 files are written" in said

    # A mount shows the file of the other machine before its content.
    late.write_bytes(b"")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    timer = threading.Timer(1.5, late.write_bytes, [whole])
    timer.start()
    status, said, _ = score("--output", output, "--images-per-file", "10")
    timer.join()
    assert (status, content(output)) == (0, undisturbed)
    assert f"{output}: 71 images in 8 files" in said


def test_a_finished_unit_is_not_written_again_and_a_damaged_one_is(score, tmp_path, undisturbed):
    output = tmp_path / "scores"
    for name, data in undisturbed.items():
        write_atomically(output / name, data)
    (output / "part-00003.parquet").write_bytes(b"half")
    (output / "_part-00005.json").unlink()
    # Left by a process that was killed.
    (output / ".part-00005.parquet-77.partial").write_bytes(b"half")
    kept = (output / "part-00000.parquet").stat().st_mtime_ns
    status, out, _ = score("--output", output, "--images-per-file", "10", "--processes", "1")
    assert status == 0
    assert f"{output}: continuing, 6 of 8 files finished" in out
    assert content(output) == undisturbed
    assert (output / "part-00000.parquet").stat().st_mtime_ns == kept


@pytest.mark.slow
def test_it_is_killed_in_the_middle_and_the_same_command_writes_the_same(
    score, run, images, tmp_path, undisturbed
):
    output = tmp_path / "scores"
    command = [*arguments(run, images, output), "--processes", "1"]
    process = start_trainer(*command, cwd=tmp_path)
    while not (output / "_part-00001.json").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert "_scores.json" not in content(output)
    status, out, _ = score("--output", output, "--images-per-file", "10", "--processes", "1")
    assert status == 0
    assert "continuing" in out
    assert content(output) == undisturbed


def test_it_says_how_to_continue_when_it_is_asked_to_end(score, tmp_path, undisturbed, monkeypatch):
    output, calls = tmp_path / "scores", []

    def encode(rows, unit):
        calls.append(unit.number)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(rows, unit)

    original = unit._encode
    monkeypatch.setattr(unit, "_encode", encode)
    command = ["--output", output, "--images-per-file", "10", "--processes", "1"]
    status, _, err = score(*command)
    assert status == 128 + signal.SIGTERM
    assert "interrupted with 2 files finished; run the same command again to continue" in err
    assert score(*command)[0] == 0
    assert calls == [0, 1, 2, *range(2, 8)]
    assert content(output) == undisturbed


def test_it_gives_no_number_of_files_before_they_are_known(
    score, tmp_path, undisturbed, monkeypatch
):
    output = tmp_path / "scores"
    for name, data in undisturbed.items():
        write_atomically(output / name, data)
    monkeypatch.setattr(batch, "list_images", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    status, _, err = score("--output", output, "--images-per-file", "10")
    assert status == 128 + signal.SIGTERM
    assert "interrupted with no further file finished; run the same command again" in err


@pytest.mark.parametrize(
    ("listing", "fault"),
    [
        ("", "it does not begin with a line {"),
        ('{\n"a.png": 1,\n', "it is incomplete"),
        ('{\n"a.png": 1,\n"b.p', "Unterminated string"),
        ('{\n"a.png": 1\n"b.png": 1\n}\n', "it is incomplete"),
        ('{\n"a.png": {}\n}\n', "the size of 'a.png' is not a whole number"),
        ('{\n"a.png": 1\n}\n{\n}\n', "has more after it"),
        ("{\n}\n", "it lists no image"),
    ],
)
def test_a_damaged_list_of_images_is_refused_by_the_other_machines(
    score, tmp_path, undisturbed, monkeypatch, listing, fault
):
    output = tmp_path / "scores"
    for name, data in undisturbed.items():
        write_atomically(output / name, data)
    (output / "_images.json").write_text(listing)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    status, _, err = score("--output", output, "--images-per-file", "10")
    assert status == 3
    assert f"{output / '_images.json'}: cannot be read (" in err
    assert fault in err
    assert "; remove it to list again" in err


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (["--images-per-file", "9"], 3, "was begun with other images, another model or other"),
        (
            ["--part", "2", "--parts", "2"],
            2,
            "--part: 2 must be below --parts 2; parts count from 0",
        ),
        (["--input", ""], 2, "--input: is missing"),
        (["--input", "nowhere"], 3, "nowhere: is not a folder"),
        (["--model", "nowhere"], 4, "nowhere: there is no exported model"),
    ],
)
def test_what_cannot_be_scored_is_refused(score, tmp_path, undisturbed, change, status, message):
    output = tmp_path / "scores"
    for name, data in undisturbed.items():
        write_atomically(output / name, data)
    found, _, err = score("--output", output, "--images-per-file", "10", *change)
    assert (found, message in err) == (status, True), err
    assert content(output) == undisturbed


def test_other_images_are_refused_before_any_is_scored(score, tmp_path, undisturbed):
    write_atomically(tmp_path / "scores" / "_images.json", undisturbed["_images.json"])
    draw(tmp_path / "other" / "a.png", 1)
    status, _, err = score("--output", tmp_path / "scores", source=tmp_path / "other")
    assert (status, "was begun with other images" in err) == (3, True)
    assert content(tmp_path / "scores").keys() == {"_images.json"}


def test_a_folder_with_something_else_is_left_alone(score, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    status, _, err = score("--output", tmp_path)
    assert status == 3
    assert f"{tmp_path}: contains thesis.txt, not scores; choose another --output" in err


def test_a_folder_without_images_is_refused(score, tmp_path):
    status, _, err = score("--output", tmp_path / "scores", source=tmp_path)
    assert status == 3
    assert "has no images (.jpg, .jpeg, .png, " in err
    assert not (tmp_path / "scores").exists()


def test_a_folder_that_may_not_be_listed_is_refused(score, images, tmp_path, monkeypatch):
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("/1"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    status, _, err = score("--output", tmp_path / "scores")
    assert status == 3
    assert f"{images}/1: cannot be listed" in err
    assert not (tmp_path / "scores").exists()


def test_a_model_of_a_task_that_is_not_known_is_refused(score, run, tmp_path):
    export = tmp_path / "export"
    (export / "saved_model").mkdir(parents=True)
    (export / "saved_model" / "saved_model.pb").write_bytes(b"")
    facts = json.loads((run / "export" / "export.json").read_text())
    (export / "export.json").write_text(json.dumps({**facts, "task": "depth"}))
    status, _, err = score("--output", tmp_path / "scores", "--model", export)
    assert status == 4
    assert "is a model for depth, which this version does not know" in err
