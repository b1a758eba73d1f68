"""A model trained for seconds, its server, and the held-out digits."""

import json
import socket
import time
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest

from tests.serving.client import ask
from tests.trainer.support.command import TINY, start_trainer
from tests.trainer.support.forked import fork_trainer
from trainer.data.builtin.digits import VALIDATION_PER_CLASS, load_records, split

READY_SECONDS = 300
MOST_IMAGES = 400


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """Folder of a run with an export."""
    place = tmp_path_factory.mktemp("trained")
    done = fork_trainer(
        "train", *TINY, "--epochs", "8", "--export", "True", "--name", "digits", cwd=place, ranks=1
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "runs" / "digits"


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """The held-out digits as files, and their contents by name."""
    folder = tmp_path_factory.mktemp("digits")
    _, held_out = split(load_records(), VALIDATION_PER_CLASS, "digits")
    images = {record.filename: record.encoded for record in held_out}
    for name, content in images.items():
        (folder / name).write_bytes(content)
    return SimpleNamespace(folder=folder, images=dict(sorted(images.items())))


@pytest.fixture(scope="session")
def predicted(run, digits):
    """What `trainer predict` prints for each held-out digit, by name."""
    asked = ("predict", str(digits.folder), "--run", str(run), "--json", "True")
    done = fork_trainer(*asked, cwd=digits.folder, ranks=1)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return {line["image"].rpartition("/")[2]: line["classes"] for line in lines}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def server(run, tmp_path_factory):
    """The server with two workers, and how it became ready."""
    port, log = free_port(), tmp_path_factory.mktemp("server") / "log"
    limits = {
        "SCORE_MAX_IMAGES": str(MOST_IMAGES),
        "SCORE_MAX_MB": "2",
        "SCORE_MAX_PIXELS": "10000",
        "SCORE_MAX_REQUEST_PIXELS": "40000",
    }
    process = start_trainer(
        *("serve", "--run", str(run), "--port", str(port), "--workers", "2", "--timeout", "3"),
        cwd=run,
        env=limits,
        output=log,
    )
    waited, end = 0, time.monotonic() + READY_SECONDS
    try:
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            try:
                answer = ask(port, None, method="GET", path="/", timeout=0.5)
                break
            except OSError:
                waited += 1
                time.sleep(0.1)
        ready_log = log.read_text()
        master = psutil.Process(process.pid)
        yield SimpleNamespace(
            port=port, master=master, log=log, waited=waited, first=answer, ready_log=ready_log
        )
    finally:
        # A worker that is loading TensorFlow would end only after that.
        with suppress(psutil.NoSuchProcess):
            for each in (process, *psutil.Process(process.pid).children()):
                each.kill()
        process.wait(60)
