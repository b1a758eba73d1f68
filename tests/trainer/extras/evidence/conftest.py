"""A run with signed statements, made once: stopped after 16 steps, and continued to the end."""

import shutil
import signal

import pytest

from tests.trainer.extras.evidence.keys import write_keys
from tests.trainer.support.command import TINY
from tests.trainer.support.forked import fork_trainer

OPTIONS = (
    *("train", *TINY, "--name", "run", "--epochs", "1", "--max-steps", "20"),
    *("--checkpoint.every-steps", "5", "--checkpoint.keep", "4"),
    *("--checkpoint.keep-best", "False", "--evidence.key", "key.pem", "--log.report", "True"),
)


@pytest.fixture(scope="session")
def made(digits_folder, tmp_path_factory):
    """Folder with `runs/run`, `data/digits`, and the keys; tests copy it."""
    from trainer.extras.evidence.observer import state_rewritten

    place = tmp_path_factory.mktemp("made")
    shutil.copytree(digits_folder, place / "data" / "digits")
    write_keys(place)
    write_keys(place, "other", elliptic=True)
    stopped = fork_trainer(*OPTIONS, cwd=place, ranks=1, stop_at=(0, signal.SIGTERM, 13))
    assert stopped.returncode == 128 + signal.SIGTERM, stopped.stderr
    done = fork_trainer(*OPTIONS, cwd=place, ranks=1)
    assert done.returncode == 0, done.stderr
    # An export takes TensorFlow seconds, and only the bytes of its files are stated.
    export = place / "runs" / "run" / "export"
    (export / "saved_model" / "variables").mkdir(parents=True)
    for name in ("saved_model.pb", "variables/variables.data-00000-of-00001"):
        (export / "saved_model" / name).write_bytes(name.encode() * 100)
    (export / "export.json").write_text('{"step": 20, "image_size": 8}')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        state_rewritten(place / "runs" / "run", ())
    return place


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of it, in which commands run."""
    copy = tmp_path / "copy"
    shutil.copytree(made, copy, symlinks=True)
    monkeypatch.chdir(copy)
    return copy
