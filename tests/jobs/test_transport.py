"""What a request names, and what an answer holds."""

import pytest

from jobs.errors import RequestError
from jobs.transport import read_json, segment, thing_at

WORKSPACE = "https://management.azure.com/subscriptions/s/resourceGroups/g/providers/x/workspaces/w"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", "workspace w"),
        ("/computes/gpu?api-version=1", "compute gpu"),
        ("/jobs/night-r1/cancel", "job night-r1"),
        ("/runs/night-r1/details", "run night-r1"),
        ("/environments/trainer-gpu/versions/5", "environment trainer-gpu:5"),
    ],
)
def test_a_request_is_called_by_the_thing_that_it_is_about(path, name):
    assert thing_at(f"{WORKSPACE}{path}") == name


def test_a_host_without_a_path_is_called_by_its_name():
    assert thing_at("https://host.example.com/") == "host.example.com"


def test_a_name_stays_one_part_of_a_path():
    assert segment("a/../b?c") == "a%2F..%2Fb%3Fc"


def test_answers_are_json_or_empty():
    assert read_json(b'{"a": 1}', WORKSPACE) == {"a": 1}
    assert read_json(b"", WORKSPACE) is None


def test_what_is_no_json_is_not_azures_answer():
    with pytest.raises(RequestError, match="answers, but not as Azure does"):
        read_json(b"<html>sign in to the guest network</html>", WORKSPACE)
