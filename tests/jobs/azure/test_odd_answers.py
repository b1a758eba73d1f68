"""A response of another form than documented is an error of its own, never a traceback."""

import json

import pytest

from common.prices import read_vm_sizes
from jobs.azure.clusters import find_quota, problems, read_nodes, read_sizes
from jobs.azure.job_body import writable
from jobs.azure.job_records import read_details, read_job
from jobs.azure.requests import read_json
from jobs.errors import OddAnswerError
from jobs.extras.serving.bodies import violations
from jobs.extras.serving.endpoints import read_deployment, read_endpoint
from tests.jobs.azure.test_requests import WORKSPACE
from tests.jobs.support.platform import platform


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


def nulled(value, path=()):
    """Return each copy of an answer in which one of its fields is null, with the field's path."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        others = dict(value) if isinstance(value, dict) else dict(enumerate(value))
        changes = list(nulled(part, (*path, key))) if isinstance(part, dict | list) else []
        if isinstance(value, dict):
            changes.append(((*path, key), None))
        for inner, changed in changes:
            copy = {**others, key: changed}
            yield inner, copy if isinstance(value, dict) else list(copy.values())


CLUSTER = {
    "name": "gpu",
    "properties": {
        "provisioningState": "Creating",
        "provisioningErrors": [{"error": {"code": "Quota", "message": "no cores"}}],
        "properties": {
            "vmSize": "Standard_ND40rs_v2",
            "vmPriority": "LowPriority",
            "scaleSettings": {"maxNodeCount": 8, "minNodeCount": 0},
            "currentNodeCount": 3,
            "targetNodeCount": 4,
            "nodeStateCounts": {"runningNodeCount": 2, "idleNodeCount": 1},
            "allocationState": "Resizing",
            "allocationStateTransitionTime": "2026-11-22T04:00:00Z",
            "errors": [{"error": {"code": "Quota", "message": "no cores"}}],
        },
    },
}
JOB = {
    "name": "digits-r1",
    "systemData": {"createdAt": "2026-11-22T04:00:00Z"},
    "properties": {
        "status": "Running",
        "computeId": "/a/computes/gpu",
        "resources": {"instanceCount": 2},
        "limits": {"timeout": "P7D"},
        "tags": {"run": "digits", "kind": "train"},
        "services": {"Studio": {"endpoint": "https://ml.azure.com/x", "jobServiceType": "Studio"}},
        "outputs": {"default": {"uri": None}},
        "experimentName": "hvd",
    },
}
RUN = {
    "status": "Failed",
    "startTimeUtc": "2026-11-22T04:00:00Z",
    "endTimeUtc": "2026-11-22T05:00:00Z",
    "error": {"error": {"code": "UserError", "message": "no", "details": [{"code": "A"}]}},
    "warnings": [{"message": "slow"}],
    "logFiles": {"user_logs/std_log.txt": "https://a/b"},
}
SIZES = {
    "value": [
        {
            "name": "Standard_D16ads_v5",
            "family": "standardDADSv5Family",
            "vCPUs": 16,
            "lowPriorityCapable": True,
            "estimatedVMPrices": {
                "billingCurrency": "USD",
                "unitOfMeasure": "OneHour",
                "values": [{"retailPrice": 0.82, "osType": "Linux", "vmTier": "Standard"}],
            },
        }
    ]
}
QUOTAS = [
    {
        "type": "Microsoft.MachineLearningServices/vmFamily/dedicatedCores/usages",
        "name": {"value": "standardNDSv2Family", "localizedValue": "NDSv2"},
        "currentValue": 0,
        "limit": 80,
        "unit": "Count",
    }
]
ENDPOINT = {
    "id": "/a/onlineEndpoints/e",
    "name": "e",
    "tags": {"run": "digits"},
    "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/a/b": {"clientId": "c"}}},
    "properties": {
        "authMode": "AADToken",
        "publicNetworkAccess": "Disabled",
        "provisioningState": "Creating",
        "scoringUri": "https://e",
        "traffic": {"blue": 100},
        "mirrorTraffic": {"green": 10},
    },
}
DEPLOYMENT = {
    "name": "blue",
    "sku": {"capacity": 1},
    "properties": {
        "provisioningState": "Creating",
        "model": "/a/models/m/versions/1",
        "environmentId": "/a/environments/e/versions/1",
        "instanceType": "Standard_DS3_v2",
        "egressPublicNetworkAccess": "Disabled",
    },
}
REQUIRED = {("name",), ("id",), ("properties",)}
"""Fields without which an answer means nothing."""


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        (read_nodes, CLUSTER),
        (lambda data: problems(platform().clusters["gpu"], 4, data), CLUSTER),
        (read_job, JOB),
        (lambda data: (read_job(data).page, writable(read_job(data))), JOB),
        (read_details, RUN),
        (read_sizes, SIZES),
        (lambda data: read_vm_sizes(data, "2026-11-28"), SIZES),
        (lambda data: find_quota(data, "Dedicated", "standardNDSv2Family"), QUOTAS),
        (lambda data: read_endpoint(data, ()), ENDPOINT),
        (lambda data: violations(platform(), data, [DEPLOYMENT]), ENDPOINT),
        (lambda data: violations(platform(), ENDPOINT, [data]), DEPLOYMENT),
        (read_deployment, DEPLOYMENT),
    ],
)
def test_a_field_that_is_null_is_read_as_one_that_is_missing(read, answer):
    for path, changed in nulled(answer):
        try:
            read(changed)
        except OddAnswerError:
            assert path in REQUIRED, path


def test_a_cluster_that_azure_is_creating_has_no_problem_but_its_state():
    own = {"vmSize": "Standard_ND40rs_v2", "vmPriority": None, "allocationState": None,
           "scaleSettings": {"maxNodeCount": 4}, "nodeStateCounts": None}  # fmt: skip
    properties = {"provisioningState": "Creating", "properties": own}
    (problem,) = problems(platform().clusters["gpu"], 4, {"name": "gpu", "properties": properties})
    assert "its state is Creating" in problem
