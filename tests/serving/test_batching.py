"""Requests that share calls of the model."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from serving.batching import Batcher, BusyError, Limits

SOON = 30.0
"""Longest wait of a test for what must happen, in seconds."""


class SlowModel:
    """Answers each image with its first byte and its place in the call; a call ends when told."""

    def __init__(self):
        self.calls, self.running, self.most_running = [], 0, 0
        self.free = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, images):
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.calls.append(len(images))
        self.begun.release()
        assert self.free.wait(SOON)
        self.running -= 1
        if b"damaged" in images:
            raise ValueError("damaged")
        places = np.arange(len(images))
        found = np.array([image[0] for image in images])
        return {"found": found, "places": places, "class_names": np.array(["a", "b"])}


def ask(batcher, *images):
    with batcher.arriving() as values:
        return values(images)


def wait_until(true):
    end = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(16) as pool:
        yield pool


def batcher_of(model, **limits):
    return Batcher(
        model, Limits(**{"wait": 0.01, "images": 8, "waiting": 20, "deadline": SOON, **limits})
    )


def behind_a_call(batcher, model, pool, requests):
    """Send requests while a call for another one runs."""
    first = pool.submit(ask, batcher, b"x")
    assert model.begun.acquire(timeout=SOON)
    sent = [pool.submit(ask, batcher, *images) for images in requests]
    wait_until(lambda: len(batcher._queue) == len(requests))
    return first, sent


def test_requests_that_wait_share_the_next_call_and_each_gets_the_rows_of_its_images(pool):
    model = SlowModel()
    requests = [(b"a", b"b"), (b"c",), (b"d", b"e", b"f")]
    first, sent = behind_a_call(batcher_of(model), model, pool, requests)
    model.free.set()
    assert first.result(SOON)["found"].tolist() == [ord("x")]
    for images, answer in zip(requests, sent, strict=True):
        assert answer.result(SOON)["found"].tolist() == [image[0] for image in images]
        assert answer.result()["class_names"].tolist() == ["a", "b"]
    assert model.calls == [1, 6]


def test_a_call_has_at_most_so_many_images_but_for_one_request_that_has_more(pool):
    model = SlowModel()
    requests = [(b"a",) * 12, *[(b"b", b"c", b"d")] * 2]
    _, sent = behind_a_call(batcher_of(model), model, pool, requests)
    model.free.set()
    counts = [len(answer.result(SOON)["found"]) for answer in sent]
    assert counts == [12, 3, 3]
    assert (sorted(model.calls), model.most_running) == ([1, 6, 12], 1)


def test_the_error_of_one_request_is_not_that_of_others(pool):
    model = SlowModel()
    requests = [(b"a",), (b"b", b"damaged"), (b"c",)]
    _, (one, wrong, other) = behind_a_call(batcher_of(model), model, pool, requests)
    model.free.set()
    assert one.result(SOON)["found"].tolist() == [ord("a")]
    assert other.result(SOON)["found"].tolist() == [ord("c")]
    with pytest.raises(ValueError, match="damaged"):
        wrong.result(SOON)


def test_a_request_that_waits_too_long_or_finds_no_place_is_refused_and_others_are_answered(pool):
    model = SlowModel()
    batcher = batcher_of(model, deadline=0.5, waiting=3)
    first, (late, too) = behind_a_call(batcher, model, pool, [(b"a",), (b"b",)])
    with pytest.raises(BusyError, match="too many images"):
        ask(batcher, b"c", b"d")
    for answer in (late, too):
        with pytest.raises(BusyError, match="no call"):
            answer.result(SOON)
    model.free.set()
    # Its call had begun before the deadline.
    assert first.result(SOON)["found"].tolist() == [ord("x")]
    assert ask(batcher, b"e")["found"].tolist() == [ord("e")]
    assert model.calls == [1, 1]


def test_a_call_waits_for_requests_that_are_being_read_but_not_for_long(pool):
    model = SlowModel()
    model.free.set()
    patient = batcher_of(model, wait=SOON)
    with patient.arriving() as values:
        other = pool.submit(ask, patient, b"a")
        wait_until(lambda: patient._queue)
        assert values([b"b"])["found"].tolist() == [ord("b")]
    assert other.result(SOON)["found"].tolist() == [ord("a")]
    # A reader that gives up, or is slow, keeps none waiting; nor does one that is alone wait.
    with pytest.raises(RuntimeError, match="gone"), patient.arriving():
        raise RuntimeError("gone")
    assert ask(patient, b"c")["found"].tolist() == [ord("c")]
    impatient = batcher_of(model)
    with impatient.arriving():
        assert ask(impatient, b"d")["found"].tolist() == [ord("d")]
    assert model.calls == [2, 1, 1]


def test_under_load_all_get_their_own_answers(pool):
    def quick(images):
        time.sleep(0.0005)
        return {"found": np.array([int(image) for image in images])}

    batcher = batcher_of(quick, wait=0.001, waiting=1000)

    def client(number):
        return [
            ask(batcher, *[str(1000 * number + n).encode()] * (1 + n % 3))["found"].tolist()
            == [1000 * number + n] * (1 + n % 3)
            for n in range(100)
        ]

    assert all(all(answers) for answers in pool.map(client, range(16)))
