"""Responses over a connection that is kept."""

import statistics
import time

from tests.rehearsal.support.small_platform import CLUSTER


def seconds_of(client, path):
    began = time.monotonic()
    assert client.get(path).status_code == 200
    return time.monotonic() - began


def test_a_response_is_sent_at_once(client):
    """With Nagle's algorithm, its second half would wait for the client's delayed acknowledgement,
    which takes 40 ms.
    """
    assert statistics.median(seconds_of(client, CLUSTER) for _ in range(60)) < 0.03
