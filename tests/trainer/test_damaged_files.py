"""Whatever is wrong with a file or a path, a command says it in a sentence and with a documented
status: no traceback, and no 0 where nothing was done.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.trainer.support.made_run import make_exported_run
from tests.trainer.support.written_run import write_run
from trainer import cli
from trainer.extras.evidence.statements import Chain

TEXTS = [
    b"", b"\xff\xfe\x00", b"[" * 100_000, b'{"a":' * 50_000, b"null", b"[1]", b"{}", b'"x"', b"7",
    b"NaN", b'{"a":', b"\x00" * 10, "{}".encode("utf-16"), b"1" * 5000,
]  # fmt: skip
"""Contents that no file of ours has."""
JUNK: list[Any] = [
    *(None, "x", "\ud800", -1, 1.5, float("inf"), float("nan"), 10**400, True),
    *([], {}, [[]], ["x", -1], {"a": {}}),
]
"""Values in places where others belong."""
STATUSES = {0, 1, 2, 3, 4, 5}
RUN, MADE, DATA = "runs/written", "runs/made", "digits"
READERS = {
    f"{RUN}/config.json": [
        *(["report", RUN], ["evaluate", "--run", RUN], ["export", "--run", RUN]),
        *(["calibrate", "--run", RUN], ["slices", "--run", RUN, "--pattern", "a"]),
        ["train", "--preset", "digits", "--data.dir", DATA, "--name", "written", "--ranks", "2"],
        ["verify-model", RUN, "--sample", "0"],
    ],
    f"{RUN}/result.json": [["report", RUN]],
    f"{RUN}/metrics.jsonl": [["report", RUN]],
    f"{RUN}/calibration.json": [["report", RUN]],
    f"{RUN}/evidence/000001-start.json": [
        *(["verify-model", RUN, "--sample", "0"], ["describe-model", RUN]),
    ],
    f"{DATA}/manifest.json": [
        *(["verify", DATA], ["inspect", DATA], ["near-duplicates", DATA]),
        ["train", "--preset", "digits", "--data.dir", DATA, "--name", "new", "--ranks", "2"],
    ],
}
"""Commands that read a file, by the file."""


@pytest.fixture(scope="module")
def place(digits_folder, tmp_path_factory):
    """A folder with a data set, a run without checkpoints, and an exported model."""
    folder = tmp_path_factory.mktemp("place")
    shutil.copytree(digits_folder, folder / DATA)
    make_exported_run(folder / MADE, folder / DATA)
    run = write_run(folder / RUN)
    (run / "calibration.json").write_text(
        json.dumps({
            "schema": 1, "step": 100, "temperature": 1.5,
            "before": {"loss": 1.0, "bins": {"3": {"count": 4, "right": 2, "probability": 1.1}}},
            "after": {"loss": 0.5, "bins": {"4": {"count": 4, "right": 3, "probability": 2}}},
        })
    )  # fmt: skip
    stored = json.loads((run / "config.json").read_text())
    Chain(run, None).append(
        "start",
        {"config.json": "0" * 64},
        {
            "attempt": 1,
            "step": 0,
            "time": "now",
            "continues": None,
            "configuration": stored,
            "data": {"version": "abc", "sha256": "0" * 64, "shards": []},
            "code": {"version": "1", "sha256": "0" * 64, "files": {}},
            "packages": {"sha256": "0" * 64, "versions": {"numpy": "2"}},
            "environment": {"processor": "abacus", "python": "3.11"},
        },
    )
    (folder / "photos").mkdir()
    Image.new("L", (8, 8), 5).save(folder / "photos" / "a.png")
    return folder


@pytest.fixture
def command(place, monkeypatch, capsys):
    """Run a command in this process; its status, having said why if it is not 0."""
    monkeypatch.chdir(place)
    started: list[Any] = []
    monkeypatch.setattr(
        "trainer.distributed.launcher.launch_with_restarts", lambda *_: started.append(1) or 0
    )

    def run(args):
        status = cli.main(args)
        out, said = capsys.readouterr()
        assert status in STATUSES, (args, status)
        assert "Traceback" not in said
        if status:
            assert "error: " in said, (args, status, said)
        else:
            assert out or started, args
        return status, said

    return run


@pytest.mark.parametrize("file", READERS)
def test_a_file_that_holds_something_else_is_named(place, command, file):
    for content in TEXTS:
        with holding(place / file, content):
            for args in READERS[file]:
                status, said = command(args)
                if args[0] != "report":
                    # A report shows what there is, and lists what cannot be read.
                    assert status, (args, content[:10])
                    assert Path(file).name.split("-")[0] in said or "statement" in said, said


@pytest.mark.parametrize("file", READERS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_values_in_places_of_others_end_no_command_with_a_traceback(place, command, file, data):
    content = (place / file).read_bytes()
    with holding(place / file, damaged(data, content)):
        for args in READERS[file]:
            command(args)


def damaged(data, content):
    """Put a value of another kind into a JSON text, or leave one out, or cut the text."""
    first, *rest = content.split(b"\n{")
    value = json.loads(first)
    places = list(places_in(value))
    *path, last = data.draw(st.sampled_from(places))
    inner = value
    for key in path:
        inner = inner[key]
    change = data.draw(st.sampled_from(["junk", "junk", "junk", "drop", "cut"]))
    if change == "cut":
        return content[: data.draw(st.integers(0, len(content) - 1))]
    if change == "drop":
        del inner[last]
    else:
        inner[last] = data.draw(st.sampled_from(JUNK))
    return b"\n{".join([json.dumps(value).encode(), *rest])


def places_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list) and len(path) < 5:
        items = value.items() if isinstance(value, dict) else enumerate(value[:1])
        for key, inner in items:
            yield from places_in(inner, (*path, key))


class holding:  # noqa: N801 a context that reads like a word
    """Let a file have another content."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content = path, content

    def __enter__(self) -> None:
        self._before = self._path.read_bytes()
        self._path.write_bytes(self._content)

    def __exit__(self, *_: object) -> None:
        self._path.write_bytes(self._before)


@pytest.mark.parametrize("name", ["predict", "score"])
@pytest.mark.parametrize(
    "content", [*TEXTS, b'{"levels": [5], "top": 5}', b'{"levels": [9, 1], "top": 5}']
)
def test_a_damaged_description_of_an_export_is_no_export(place, command, name, content):
    given = ["--input", "photos", "--output", "scores"] if name == "score" else ["photos"]
    with holding(place / MADE / "export" / "export.json", content):
        if content == b"{}" and name == "predict":
            # An export may say nothing of levels.
            return
        status, said = command([name, *given, "--run", MADE])
        assert status == 4
        assert "export.json: " in said


COLUMNS = "index,label,predicted,probability\n"


@pytest.mark.parametrize(
    "content", ["", "index\n", "index,label\n0,1\n", f"{COLUMNS}x,1,1,0.5\n", "\0\0",
                f"{COLUMNS}1,2,2,many\n", COLUMNS]
)  # fmt: skip
def test_damaged_predictions_have_no_slices(place, command, content, monkeypatch):
    from trainer.data.data_set import DataSet

    monkeypatch.setattr(DataSet, "check_version", lambda *_: None)
    config = place / RUN / "config.json"
    stored = json.loads(config.read_text())
    stored["config"]["data"]["dir"] = DATA
    with (
        holding(config, json.dumps(stored).encode()),
        holding(place / RUN / "predictions.csv", content.encode()),
    ):
        status, said = command(["slices", "--run", RUN, "--pattern", "a"])
    assert status == 3
    assert "predictions.csv: has no" in said


BAD_PATHS = ["nowhere", "a-file", "a-file/below", "dangling", "pipe", "/proc/x", "x" * 300, "a\nb"]
TAKING_PATHS = {
    "verify": ["verify", "PATH"],
    "inspect": ["inspect", "PATH"],
    "near-duplicates": ["near-duplicates", "PATH"],
    "report": ["report", "PATH"],
    "evaluate": ["evaluate", "--run", "PATH"],
    "export": ["export", "--run", "PATH"],
    "export --output": ["export", "--run", MADE, "--output", "PATH"],
    "calibrate": ["calibrate", "--run", "PATH"],
    "slices": ["slices", "--run", "PATH", "--pattern", "a"],
    "slices --table": ["slices", "--run", MADE, "--table", "PATH", "--column", "a"],
    "stacks": ["stacks", "PATH"],
    "verify-model": ["verify-model", "PATH"],
    "describe-model": ["describe-model", "PATH"],
    "predict": ["predict", "PATH", "--run", MADE],
    "predict --run": ["predict", "photos", "--run", "PATH"],
    "predict --model": ["predict", "photos", "--model", "PATH"],
    "score --input": ["score", "--input", "PATH", "--output", "scores", "--run", MADE],
    "score --run": ["score", "--input", "photos", "--output", "scores", "--run", "PATH"],
    "serve": ["serve", "--run", "PATH"],
    "prepare folder": ["prepare", "folder", "--input", "PATH", "--output", "prepared"],
    "prepare webdataset": ["prepare", "webdataset", "--input", "PATH", "--output", "prepared"],
    "prepare tfrecords": ["prepare", "tfrecords", "--input", "PATH"],
    "prepare parquet": ["prepare", "parquet", "--input", "PATH"],
    "train --data.dir": ["train", "--preset", "images", "--data.dir", "PATH"],
}


@pytest.mark.parametrize("name", TAKING_PATHS)
@pytest.mark.long
def test_a_path_that_is_something_else_is_named(place, command, name):
    make_bad_paths(place)
    for path in BAD_PATHS:
        if (name, path) == ("export --output", "nowhere") or (
            name == "export --output" and path in ("dangling", "a\nb")
        ):
            continue
        args = [path if arg == "PATH" else arg for arg in TAKING_PATHS[name]]
        status, said = command(args)
        assert status in (1, 2, 3, 4), (args, status, said)


def make_bad_paths(place):
    (place / "a-file").write_text("mine")
    for name, make in (("dangling", lambda p: p.symlink_to("nothing")), ("pipe", os.mkfifo)):
        if not os.path.lexists(place / name):
            make(place / name)


@pytest.mark.parametrize("option", ["--runs-dir", "--log.tensorboard-dir"])
@pytest.mark.parametrize("path", ["a-file", "a-file/below", "pipe", "/proc/x", "/etc/hostname"])
@pytest.mark.parametrize("ranks", ["1", "2"])
def test_a_folder_that_a_run_cannot_write_to_is_refused_at_once(
    place, command, option, path, ranks
):
    make_bad_paths(place)
    given = ["--data.dir", DATA, option, path, "--ranks", ranks, "--restarts", "1"]
    status, said = command(["train", "--preset", "digits", *given])
    assert status == 2
    assert f"{option}: " in said


def test_links_to_nothing_and_pipes_in_a_folder_are_counted(tmp_path, place, command):
    folder = tmp_path / "photos"
    shutil.copytree(place / "photos", folder)
    (folder / "b.jpg").symlink_to("nothing")
    os.mkfifo(folder / "c.jpg")
    status, said = command(["predict", str(folder), "--run", MADE])
    assert status == 0
    assert "note: left out 2 broken links, pipes or devices: " in said
    status, said = command(["predict", str(folder / "c.jpg"), "--run", MADE])
    assert status == 3
    assert "c.jpg: is a pipe or a device, not a file" in said
