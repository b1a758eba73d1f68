"""Operations that continue after their request was answered, and where their state is read."""

import pytest

from rehearsal.control_plane.answers import Answer, Answers
from rehearsal.control_plane.arm_path import parse
from rehearsal.control_plane.http_messages import Request
from rehearsal.control_plane.operations import Operations
from rehearsal.errors import AzureError

PATH = parse("/subscriptions/s/resourceGroups/g/providers/P/things/one")
REGION = "/subscriptions/{subscription}/providers/P/locations/{location}"
ANSWERS = Answers(
    state_at=f"{REGION}/operations/{{operation}}",
    result_at=f"{REGION}/operationResults/{{operation}}",
)
ANSWER = Answer(202, "Creating", polled=True, location="result", pause=30)


def read(operations, address):
    """The answer to a GET of an address of an operation."""
    path, _, query = address.removeprefix("https://here").partition("?")
    pairs = dict(pair.split("=") for pair in query.split("&"))
    return operations.response(Request("GET", path, pairs))


def test_an_operation_goes_on_until_its_time_is_over():
    time, done = [0.0], []
    operations = Operations("https://here", 5.0, 1, clock=lambda: time[0])
    headers = operations.accept(PATH, ANSWERS, ANSWER, "x", lambda: done.append(1))
    assert headers["Retry-After"] == "1"
    for now, status in ((0.0, 202), (4.9, 202), (5.0, 200), (9.0, 200)):
        time[0] = now
        operations.finish_due()
        assert read(operations, headers["Location"]).status == status
        state = "InProgress" if status == 202 else "Succeeded"
        assert read(operations, headers["Azure-AsyncOperation"]).body == {"status": state}
    assert done == [1]


def test_an_operation_without_duration_has_ended_when_it_is_first_read():
    operations = Operations("https://here")
    headers = operations.accept(PATH, ANSWERS, ANSWER, "x", lambda: None, result=lambda: {"a": 1})
    assert headers["Retry-After"] == "30"
    assert read(operations, headers["Location"]).body == {"a": 1}


def test_an_operation_whose_resource_failed_has_failed():
    operations = Operations("https://here")
    headers = operations.accept(PATH, ANSWERS, ANSWER, "x", lambda: None, lambda: "Failed")
    body = read(operations, headers["Azure-AsyncOperation"]).body
    assert body["status"] == "Failed"
    assert body["error"]["code"]


@pytest.mark.parametrize(
    "place",
    [
        "operations/{operation}",
        "operationResults/{operation}",
        "asyncoperations/{operation}",
        "workspaceOperationsStatus/{operation}",
        "computeOperationsStatus/{operation}",
        "mfeOperationsStatus/oeidp:{operation}",
        "mfeOperationResults/{operation}",
        "privateDnsOperationStatuses/{operation}",
        "operationStatuses/registries-{operation}",
        "operationresults/{operation}",
    ],
)
def test_an_operation_is_found_at_each_place_that_azure_has(place):
    operations = Operations("https://here")
    answers = Answers(result_at=f"/subscriptions/s/{place}")
    answer = Answer(202, location="result")
    address = operations.accept(PATH, answers, answer, "x", lambda: None)["Location"]
    assert read(operations, address).status == 200
    with pytest.raises(AzureError, match="no operation"):
        read(operations, address[: address.index("?") - 12] + "000000000000?a=b")


def test_other_paths_are_those_of_no_operation():
    assert Operations("https://here").response(Request("GET", PATH.id)) is None
