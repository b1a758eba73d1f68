"""A response of another form than documented is an error of its own, never a traceback."""

import json

import pytest

from jobs.azure.clusters import find_quota, read_nodes, read_sizes
from jobs.azure.job_records import read_details, read_job
from jobs.azure.requests import read_json
from jobs.errors import OddAnswerError
from tests.jobs.azure.test_requests import WORKSPACE


@pytest.mark.parametrize("content", [b"<html>sign in</html>", b'{"status": "Comp', b"\xff\xfe"])
def test_what_is_not_json_is_odd(content):
    with pytest.raises(OddAnswerError, match="is not JSON"):
        read_json(content, WORKSPACE)


def test_a_missing_member_names_the_request():
    answer = read_json(b'{"properties": {}}', f"{WORKSPACE}/computes/gpu")
    with pytest.raises(OddAnswerError, match="compute gpu: the response from Azure lacks 'state'"):
        answer["properties"]["state"]


@pytest.mark.parametrize("data", ["[]", "{}", '{"name": "a", "properties": null}', "7", '"x"',
                                  '{"name": "a", "properties": {"status": ["Failed"]}}',
                                  '{"name": "a", "properties": {"tags": [1]}}'])  # fmt: skip
def test_a_job_of_another_form_is_odd(data):
    with pytest.raises(OddAnswerError):
        read_job(json.loads(data))


@pytest.mark.parametrize("data", ["[]", "{}", "7", '{"status": {}}',
                                  '{"status": "Failed", "logFiles": [1]}'])  # fmt: skip
def test_a_run_of_another_form_is_odd(data):
    with pytest.raises(OddAnswerError):
        read_details(json.loads(data))


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_nodes, {"name": "gpu"}),
        (read_nodes, {"name": "gpu", "properties": {"properties": {"currentNodeCount": "many"}}}),
        (read_sizes, [7]),
        (lambda data: find_quota(data, "LowPriority", "f"), [7]),
    ],
)
def test_a_cluster_of_another_form_is_odd(read, data):
    with pytest.raises(OddAnswerError):
        read(data)
