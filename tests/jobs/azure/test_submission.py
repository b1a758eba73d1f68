"""A further attempt is the same job under the next name, whoever makes it."""

from dataclasses import replace

import pytest

from common.errors import UserError
from jobs.azure.job_records import read_job
from jobs.azure.submission import cluster_problems, following_body, next_attempt, writable
from jobs.spec.run_key import Attempt
from tests.jobs.support.platform import platform

BODY = {
    "jobType": "Command",
    "status": "Failed",
    "displayName": "night, attempt 1",
    "description": "train on 4 x 8 GPUs",
    "experimentName": "train",
    "codeId": "/codes/c/versions/1",
    "command": "python -m trainer train",
    "environmentId": "/environments/trainer-gpu/versions/1",
    "environmentVariables": {"NCCL_DEBUG": "WARN"},
    "computeId": "/computes/gpu",
    "resources": {"instanceCount": 4, "shmSize": "64g", "dockerArgs": "--ulimit memlock=-1"},
    "distribution": {"distributionType": "Mpi", "processCountPerInstance": 8},
    "limits": {"jobLimitsType": "Command", "timeout": "P7D"},
    "identity": {"identityType": "Managed", "clientId": "c"},
    "queueSettings": None,
    "parentJobName": None,
    "isArchived": False,
    "properties": {"_azureml.ComputeTargetType": "amlctrain", "mlflow.source.git.commit": "abc"},
    "inputs": {"data": {"jobInputType": "uri_folder", "uri": "azureml:imagenet:3"}},
    "outputs": {
        "run": {"jobOutputType": "uri_folder", "uri": "azureml://datastores/r/paths/runs/night"},
        "default": {"jobOutputType": "uri_folder", "uri": "azureml://datastores/a/ExperimentRun"},
    },
    "services": {
        "Studio": {"jobServiceType": "Studio", "endpoint": "https://ml.azure.com/runs/night-r1"},
        "Tracking": {"jobServiceType": "Tracking", "endpoint": "azureml://x"},
        "ssh": {"jobServiceType": "SSH", "nodes": {"nodesValueType": "All"}, "port": None,
                "endpoint": "10.0.0.4", "status": "Stopped", "properties": {"sshPublicKeys": "k"}},
    },
    "tags": {"run": "night", "attempt": "1", "kind": "train", "data": "imagenet:3"},
}  # fmt: skip


def job(**changes):
    return read_job({"name": "night-r1", "properties": {**BODY, **changes}})


def test_the_next_attempt_runs_the_same_with_the_same_data_and_folder():
    body = following_body(job(), Attempt("night", 2))
    named = {"displayName", "outputs", "services", "tags"}
    added = {"status", "queueSettings", "parentJobName", "isArchived", "properties"}
    for key in BODY.keys() - named - added:
        assert body[key] == BODY[key]
    assert body["outputs"] == {"run": BODY["outputs"]["run"]}
    assert body["displayName"] == "night, attempt 2"
    assert body["tags"] == {**BODY["tags"], "attempt": "2", "resubmitted": "True"}


def test_what_azure_added_is_left_out():
    body = following_body(job(), Attempt("night", 2))
    assert not set(body) & {"status", "parentJobName", "queueSettings", "properties", "isArchived"}
    assert body["services"] == {
        "ssh": {
            "jobServiceType": "SSH",
            "nodes": {"nodesValueType": "All"},
            "properties": {"sshPublicKeys": "k"},
        }
    }


def test_everyone_makes_the_same_body_and_a_mark_is_not_passed_on():
    marked = job(tags={**BODY["tags"], "canceled_by": "a@b.c"})
    assert following_body(marked, Attempt("night", 2)) == following_body(job(), Attempt("night", 2))
    assert writable(marked)["tags"]["canceled_by"] == "a@b.c"


def test_attempts_follow_one_another_and_other_jobs_have_none():
    assert next_attempt(job()).name == "night-r2"
    with pytest.raises(UserError, match="was not submitted by this project"):
        next_attempt(job(tags={}))


def cluster(**changes):
    own = {"vmSize": "STANDARD_ND40RS_V2", "vmPriority": "LowPriority",
           "scaleSettings": {"maxNodeCount": 4}, **changes}  # fmt: skip
    return {"properties": {"provisioningState": "Succeeded", "properties": own}}


def test_a_cluster_as_the_outputs_say_has_no_problems():
    assert cluster_problems(platform().clusters.gpu, 4, cluster()) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (cluster(vmSize="Standard_NC6"), "has Standard_NC6, not Standard_ND40rs_v2"),
        (cluster(vmPriority="Dedicated"), "is Dedicated, not LowPriority"),
        (cluster(scaleSettings={"maxNodeCount": 3}), "--nodes: 4, but the cluster"),
        ({"properties": {**cluster()["properties"], "provisioningState": "Creating"}},
         "its state is Creating"),
    ],
)  # fmt: skip
def test_a_cluster_that_is_another_than_the_outputs_say_is_told(found, words):
    (problem,) = cluster_problems(replace(platform().clusters.gpu), 4, found)
    assert words in problem
