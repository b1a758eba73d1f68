"""The request body of a first attempt is built from its spec, a further one's from the previous."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from jobs.azure.job_body import (
    first_body,
    iso_duration,
    next_body,
    tagged_body,
    writable,
)
from jobs.azure.job_records import duration_seconds, read_job
from jobs.azure.submission import next_attempt
from jobs.spec.budget_policy import Budget, with_max_seconds
from jobs.spec.run_key import RunAttempt
from jobs.spec.sdk_job import command_job
from tests.jobs.support import samples
from tests.jobs.support.platform import platform
from tests.jobs.support.wire import wire_body

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


def test_the_next_attempt_of_a_run_with_a_budget_gets_what_is_left_of_it():
    before = Budget(50, "USD", 5.0, nodes=4, margin_seconds=300)
    limits = before.limits()
    first = job(
        command=with_max_seconds("python -m trainer train", limits.max_seconds),
        limits={"jobLimitsType": "Command", "timeout": iso_duration(limits.timeout_seconds)},
        tags={**BODY["tags"], **before.tags},
    )
    left = Budget.of(first.tags, first.nodes).after(3600)
    body = next_body(first, RunAttempt("night", 2), left)
    # 50 USD pay for four nodes for 2.5 hours, of which one is over.
    assert body["limits"] == {"jobLimitsType": "Command", "timeout": "PT1H30M"}
    assert body["command"] == "python -m trainer train --max-seconds 5100"
    assert body["tags"]["spent_before"] == "20.000000 USD"
    second = read_job({"name": "night-r2", "properties": {**BODY, **body}})
    assert Budget.of(second.tags, second.nodes) == left


def budgeted(budget, **changes):
    """A job that is limited to a budget."""
    limits = budget.limits()
    return job(
        command=with_max_seconds("python -m trainer train", limits.max_seconds),
        limits={"jobLimitsType": "Command", "timeout": iso_duration(limits.timeout_seconds)},
        tags={**BODY["tags"], **budget.tags},
        **changes,
    )


@pytest.mark.parametrize(
    ("asked", "timeout", "seconds"), [(7 * 86_400, "PT3H", 10_500), (7200, "PT2H", 6900)]
)
def test_an_attempt_on_fewer_nodes_has_the_time_that_the_budget_pays_for(asked, timeout, seconds):
    before = Budget(100, "USD", 2.0, nodes=4, at_most=20.0, longest_seconds=asked)
    first = budgeted(before)
    assert first.timeout_seconds == 4500
    left = replace(Budget.of(first.tags, 4).after(1800), nodes=1)
    body = next_body(first, RunAttempt("night", 2), left)
    # 60 USD pay for one node for three hours; the first attempt had less than was asked for.
    assert body["limits"]["timeout"] == timeout
    assert body["command"].endswith(f"--max-seconds {seconds}")
    assert body["tags"]["longest_seconds"] == str(asked)


def test_an_attempt_without_the_tag_of_its_own_timeout_still_saves_before_it_is_ended():
    first = budgeted(Budget(100, "USD", 20.0, nodes=4))
    left = replace(Budget.of(first.tags, 4).after(1800), nodes=1)
    body = next_body(first, RunAttempt("night", 2), left)
    assert body["limits"]["timeout"] == "PT1H15M"
    assert body["command"].endswith("--max-seconds 4200")


def test_the_next_attempt_runs_the_same_with_the_same_data_and_folder():
    body = next_body(job(), RunAttempt("night", 2))
    named = {"displayName", "outputs", "services", "tags"}
    added = {"status", "queueSettings", "parentJobName", "isArchived", "properties"}
    for key in BODY.keys() - named - added:
        assert body[key] == BODY[key]
    assert body["outputs"] == {"run": BODY["outputs"]["run"]}
    assert body["displayName"] == "night, attempt 2"
    assert body["tags"] == {**BODY["tags"], "attempt": "2", "resubmitted": "True"}


def test_what_azure_added_is_left_out():
    body = next_body(job(), RunAttempt("night", 2))
    assert not set(body) & {"status", "parentJobName", "queueSettings", "isArchived"}
    # The origin of the code is that of the first attempt.
    assert body["properties"] == {"mlflow.source.git.commit": "abc"}
    assert body["services"] == {
        "ssh": {
            "jobServiceType": "SSH",
            "nodes": {"nodesValueType": "All"},
            "properties": {"sshPublicKeys": "k"},
        }
    }


def test_what_azure_shows_as_null_is_not_given_again():
    shown = {"instanceType": None, "properties": None, "locations": None}
    found = job(
        resources={**BODY["resources"], **shown},
        limits={**BODY["limits"], "timeout": None},
        outputs={"run": {**BODY["outputs"]["run"], "description": None}},
        services={"ssh": {"jobServiceType": "SSH", "port": None, "nodes": {"n": None}}, "x": None},
    )
    for body in (next_body(found, RunAttempt("night", 2)), tagged_body(found, {})):
        assert body["resources"] == BODY["resources"]
        assert body["limits"] == {"jobLimitsType": "Command"}
        assert body["outputs"] == {"run": BODY["outputs"]["run"]}
        assert body["services"] == {"ssh": {"jobServiceType": "SSH", "nodes": {}}}


def test_everyone_makes_the_same_body_and_a_mark_is_not_passed_on():
    marked = job(tags={**BODY["tags"], "canceled_by": "a@b.c"})
    assert next_body(marked, RunAttempt("night", 2)) == next_body(job(), RunAttempt("night", 2))
    assert writable(marked)["tags"]["canceled_by"] == "a@b.c"


def test_attempts_follow_one_another_and_other_jobs_have_none():
    assert next_attempt(job()).name == "night-r2"
    with pytest.raises(UserError, match="was not submitted by this project"):
        next_attempt(job(tags={}))


WORKSPACE = "/subscriptions/s/workspaces/w"


@pytest.mark.parametrize("name", samples.every_kind())
def test_a_first_attempt_is_handed_over_as_the_sdk_would(name, tmp_path):
    spec = samples.every_kind()[name]
    sent = first_body(spec, WORKSPACE, f"{WORKSPACE}/codes/c/versions/1", {"commit": "abc"})
    job = command_job(spec, tmp_path)
    job.code, job.compute = sent["codeId"], sent["computeId"]
    job.environment, job.properties = sent["environmentId"], {"commit": "abc"}
    for each in job.inputs.values():
        if not each.path.startswith("azureml://"):
            asset, version = each.path.removeprefix("azureml:").split(":")
            each.path = f"{WORKSPACE}/data/{asset}/versions/{version}"
    sdks = wire_body(job)
    # What Azure takes for given.
    assert sdks.pop("isArchived") is False
    assert sdks["resources"].pop("properties") == {}
    assert sent == {"inputs": {}, "outputs": {}, "services": {}, **sdks}


def test_a_first_attempt_names_what_it_refers_to_by_resource_ids():
    spec = samples.training(2, platform())
    sent = first_body(spec, WORKSPACE, "code", {})
    name, version = spec.environment.split(":")
    assert sent["environmentId"] == f"{WORKSPACE}/environments/{name}/versions/{version}"
    assert sent["computeId"] == f"{WORKSPACE}/computes/{spec.cluster.name}"
    assert sent["inputs"]["data"]["uri"] == f"{WORKSPACE}/data/imagenet/versions/3"


def test_a_further_attempt_is_handed_over_as_the_first_one():
    spec = samples.tuned(platform(profile="allowlisted", dedicated=True))
    sent = first_body(spec, WORKSPACE, "code", {"commit": "abc"})
    attempt = RunAttempt(spec.run, 3)
    submitted = read_job({"name": spec.name, "properties": sent})
    expected = first_body(spec.for_attempt(attempt), WORKSPACE, "code", {})
    del expected["properties"]
    expected["tags"]["resubmitted"] = "True"
    assert next_body(submitted, attempt) == expected


@given(st.integers(1, 21 * 86_400))
def test_time_outs_are_written_as_they_are_read(seconds):
    assert duration_seconds(iso_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(604_800, "P7D"), (45_000, "PT12H30M"), (7200, "PT2H"), (90_061, "P1DT1H1M1S")],
)
def test_time_outs_are_written_as_the_sdk_writes_them(seconds, text):
    assert iso_duration(seconds) == text
