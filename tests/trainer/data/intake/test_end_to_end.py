"""Identifiers that were planted are in no byte that any command writes or prints."""

import zlib

import pytest

from tests.trainer.support.command import TINY, run_trainer
from tests.trainer.support.data_sets.planted import planted
from tests.trainer.support.forked import fork_trainer
from trainer.cli import main
from trainer.data.intake.names import KEY_VARIABLE

KEY = "a key of sufficient length"


def unpacked(data):
    """Some bytes, and the compressed content of PNGs among them."""
    parts, at = [data], data.find(b"zTXt")
    while at >= 0:
        for begin in range(at, at + 100):
            try:
                parts.append(zlib.decompress(data[begin:]))
            except zlib.error:
                continue
        at = data.find(b"zTXt", at + 1)
    return b"".join(parts)


@pytest.mark.slow
def test_no_command_writes_or_prints_an_identifier(tmp_path, monkeypatch, capsys):
    made = planted()
    for label in ("benign", "malignant"):
        for _ in range(5):
            patient = tmp_path / "in" / label / made.text("patient")
            patient.mkdir(parents=True)
            for name, data in made.files.items():
                file = patient / f"{made.text('file')}.{name.rpartition('.')[2]}"
                file.write_bytes(data)
    (patient / f"{made.text('broken')}.jpg").write_bytes(made.files["plain.jpg"][:300])
    assert len(made.texts) > 120
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    hashed, data = ["--names", "hashed"], ["--data.source", "tfrecords", "--data.dir", "set"]
    commands = [
        ["prepare", "folder", "--input", "in", "--output", "set", *hashed, "--max-rejected", "9%"],
        ["verify", "set", "--deep", "True"],
        ["inspect", "set"],
        ["train", *TINY, *data, "--name", "run", "--batch-size", "8",
         "--log.report", "True", "--export", "True"],
        ["report", "runs/run"],
        ["evaluate", "--run", "runs/run"],
        ["score", "--run", "runs/run", "--input", "in", "--output", "scores", "--format", "csv",
         *hashed],
    ]  # fmt: skip
    for command in commands:
        if command[0] in ("train", "evaluate"):
            ended = fork_trainer(*command, cwd=tmp_path, ranks=1, env=[{KEY_VARIABLE: KEY}])
            status, printed = ended.returncode, ended.stdout + ended.stderr
        elif command[0] == "score":
            done = run_trainer(*command, cwd=tmp_path)
            status, printed = done.returncode, done.stdout + done.stderr
        else:
            # These need no TensorFlow, whose import takes longer than their work.
            status, printed = main(command), "".join(capsys.readouterr())
        assert status == 0, (command, printed)
        assert made.found_in(printed.encode()) == []
        assert KEY not in printed
    outputs = [path for path in tmp_path.rglob("*") if path.is_file()
               and not path.is_relative_to(tmp_path / "in")]  # fmt: skip
    assert len(outputs) > 15
    for path in outputs:
        data = unpacked(path.read_bytes())
        assert (path.name, made.found_in(data)) == (path.name, [])
        assert made.found_in(str(path.relative_to(tmp_path)).encode()) == []
        assert KEY.encode() not in data
    assert "What left the files" in (tmp_path / "set" / "inspect.html").read_text()
