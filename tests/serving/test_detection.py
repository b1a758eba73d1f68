"""The real server with a detection, from a run on Parquet files that are read in place."""

import time
from contextlib import suppress

import numpy as np
import psutil
import pytest

from tests.serving.client import ask, instances, multipart
from tests.serving.conftest import READY_SECONDS, free_port
from tests.trainer.extras.detection.test_rows import GOOD, picture, table
from tests.trainer.extras.detection.test_task import finding, state
from tests.trainer.support.command import start_trainer
from tests.trainer.support.data_sets.parquet_files import describe, write_file
from tests.trainer.support.forked import fork_trainer

SMALL = (
    *("--preset", "objects", "--ranks", "1", "--batch-size", "4", "--max-steps", "2"),
    *("--model.width", "8", "--model.image-size", "64", "--data.streams", "2"),
    *("--data.shuffle-window", "8", "--log.report", "False", "--restarts", "0"),
)


@pytest.fixture
def port(tmp_path):
    """Port of the server of a model that was tuned for some steps."""
    for split in ("train", "validation"):
        write_file(tmp_path / "set" / f"{split}.parquet", table(GOOD * 4), rows=5)
    describe(tmp_path / "set")
    # After two steps from the start, no object would have a score worth an answer.
    weights = str(state(tmp_path / "weights.safetensors", finding(2)))
    run = ("train", *SMALL, "--data.dir", "set", "--export", "True", "--name", "boxes")
    run += ("--model.weights", weights, "--optimizer.learning-rate", "1e-6")
    done = fork_trainer(*run, cwd=tmp_path, ranks=1, small=False)
    assert done.returncode == 0, done.stdout + done.stderr
    number, log = free_port(), tmp_path / "log"
    process = start_trainer(
        *("serve", "--run", "runs/boxes", "--port", str(number), "--workers", "1"),
        cwd=tmp_path,
        output=log,
    )
    end = time.monotonic() + READY_SECONDS
    try:
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            with suppress(OSError):
                ask(number, None, method="GET", path="/", timeout=0.5)
                break
            time.sleep(0.2)
        yield number
    finally:
        with suppress(psutil.NoSuchProcess):
            for each in (process, *psutil.Process(process.pid).children()):
                each.kill()
        process.wait(60)


def numbers(objects):
    return [[one["class_id"], one["score"], *one["box"]] for one in objects]


@pytest.mark.long
def test_the_server_of_a_detection_answers_with_boxes_in_every_form(port):
    image = picture(5)["bytes"]
    single = ask(port, image)
    assert single.status == 200, single.body
    objects = single.data["objects"]
    scores = [one["score"] for one in objects]
    assert objects
    assert scores == sorted(scores, reverse=True)
    for one in objects:
        left, top, right, bottom = one["box"]
        assert 0 <= left <= right <= 1
        assert 0 <= top <= bottom <= 1
        assert (one["class_id"], one["class_name"]) in [(0, "cat"), (1, "dog")]
    several = ask(port, *multipart({"a.jpg": image, "b.jpg": image}))
    assert [one["image"] for one in several.data["images"]] == ["a.jpg", "b.jpg"]
    for one in several.data["images"]:
        # A batch of another size rounds in another way.
        np.testing.assert_allclose(numbers(one["objects"]), numbers(objects), atol=1e-4)
    rows = ask(port, instances([image]), "application/json").data["predictions"]
    assert rows[0]["scores"][: len(scores)] == scores
    assert ask(port, image[: len(image) // 3]).status == 422
