"""Submitted jobs as local processes."""

import datetime as dt
import json
import shlex
import sys
import time

import jwt
import pytest

from tests import ROOT
from tests.rehearsal.support.small_platform import CLUSTER, RESULTS, WORKSPACE, compute, error
from tests.rehearsal.support.waiting import until


def output(path):
    return {
        "run": {"jobOutputType": "uri_folder", "uri": f"{RESULTS}/{path}", "mode": "ReadWriteMount"}
    }


def blobs(results, prefix):
    return {blob.name: results.download_blob(blob.name).readall().decode()
            for blob in results.list_blobs(name_starts_with=prefix)}  # fmt: skip


def wait_for_blobs(results, prefix):
    until(lambda: blobs(results, prefix))


def test_a_job_runs_through_azures_states_and_its_log_can_be_read(client, azure):
    answer = client.job("states", "echo to stdout; echo to stderr >&2")
    assert answer.status_code == 201, answer.text
    ended = client.wait("states")
    assert ended["status"] == "Completed"
    assert ended["startTimeUtc"] < ended["endTimeUtc"]
    assert client.log("states") == "to stdout\nto stderr\n"
    states = [state for state, _ in azure.runs.get(f"{WORKSPACE}/jobs/states")["states"]]
    assert states == ["NotStarted", "Starting", "Preparing", "Queued", "Running", "Finalizing",
                      "Completed"]  # fmt: skip
    assert client.get(f"{WORKSPACE}/jobs/states").json()["properties"]["status"] == "Completed"


def test_inputs_and_outputs_are_folders_with_the_blobs_content(client, results):
    results.upload_blob("in/a/one.txt", b"1", overwrite=True)
    results.upload_blob("kept/before.txt", b"before", overwrite=True)
    client.job(
        "folders",
        "cat ${{inputs.data}}/a/one.txt ${{outputs.run}}/before.txt; echo ${{inputs.epochs}};"
        " mv ${{outputs.run}}/before.txt ${{outputs.run}}/after.txt;"
        " mkdir -p ${{outputs.run}}/x outputs/tb; echo 2 > ${{outputs.run}}/x/two.txt;"
        " echo curve > outputs/tb/events",
        inputs={
            "data": {
                "jobInputType": "uri_folder",
                "uri": f"{RESULTS}/in/",
                "mode": "ReadOnlyMount",
            },
            "epochs": {"jobInputType": "literal", "value": "90"},
        },
        outputs=output("kept"),
    )
    assert client.wait("folders")["status"] == "Completed"
    assert client.log("folders") == "1before90\n"
    assert blobs(results, "kept/") == {"kept/after.txt": "before", "kept/x/two.txt": "2\n"}
    artifacts = client.azure.blobs.container("teststore", "azureml")
    events = artifacts.download_blob("ExperimentRun/dcid.folders/outputs/tb/events")
    assert events.readall() == b"curve\n"


def test_a_data_asset_is_an_input(client, results):
    results.upload_blob("set/label.txt", b"seven", overwrite=True)
    data = {"properties": {"dataType": "uri_folder", "dataUri": f"{RESULTS}/set/"}}
    client.put(f"{WORKSPACE}/data/digits/versions/7", data)
    uri = f"{WORKSPACE}/data/digits/versions/7"
    given = {"jobInputType": "uri_folder", "uri": uri, "mode": "Download"}
    client.job("asset", "cat ${{inputs.d}}/label.txt", inputs={"d": given})
    client.wait("asset")
    assert client.log("asset") == "seven"


def test_what_the_simulator_does_not_run_is_refused_with_a_sentence(client):
    component = f"{WORKSPACE}/components/step/versions/1"
    ranks = {"distributionType": "PyTorch", "processCountPerInstance": 2}
    for answer, words in (
        (client.job("swept", "true", jobType="Sweep"), "Jobs of type 'Sweep' are not supported"),
        (client.job("torch", "true", distribution=ranks), "'PyTorch' are not supported here"),
        (client.put(component, {"properties": {}}), "pipelines, are not supported here"),
    ):
        assert error(answer) == (400, "UserError")
        assert words in answer.json()["error"]["message"]


def test_ranks_know_their_place_and_carry_no_secret(client):
    client.job(
        "ranks",
        "env",
        resources={"instanceCount": 2},
        distribution={"distributionType": "Mpi", "processCountPerInstance": 2},
        environmentVariables={"NCCL_DEBUG": "WARN"},
    )
    assert client.wait("ranks")["status"] == "Completed"
    assert sorted(client.details("ranks")["logFiles"]) == [
        f"user_logs/std_log_process_{rank:02d}.txt" for rank in range(4)
    ]
    lines = client.log("ranks", "std_log_process_03.txt").splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert seen["OMPI_COMM_WORLD_RANK"] == "3"
    assert seen["OMPI_COMM_WORLD_SIZE"] == "4"
    assert seen["OMPI_COMM_WORLD_LOCAL_RANK"] == "1"
    assert seen["AZ_BATCH_MASTER_NODE"].startswith("127.0.0.1:")
    assert seen["AZUREML_RUN_ID"] == "ranks"
    assert seen["AZUREML_NODE_COUNT"] == "2"
    assert seen["NCCL_DEBUG"] == "WARN"
    secret = client.azure.environment["AZURE_CLIENT_SECRET"]
    assert not [name for name in seen if name.startswith(("AZURE_CLIENT", "AZURITE"))]
    assert secret not in json.dumps(seen)


def test_a_failing_rank_ends_the_others_and_is_named(client):
    client.job(
        "failing",
        'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exit 7; fi; sleep 600',
        resources={"instanceCount": 2},
        distribution={"distributionType": "Mpi", "processCountPerInstance": 1},
    )
    ended = client.wait("failing")
    assert ended["status"] == "Failed"
    message = ended["error"]["error"]["message"]
    assert "exited with status code 7" in message
    assert "user_logs/std_log_process_01.txt" in message


def test_output_is_written_back_while_the_job_runs(client, results):
    client.job("live", "echo 1 > ${{outputs.run}}/a; echo hello; sleep 600", outputs=output("live"))
    client.wait_for_log("live", "hello")
    wait_for_blobs(results, "live/")
    assert blobs(results, "live/") == {"live/a": "1\n"}
    assert client.details("live")["status"] == "Running"
    client.cancel("live")
    assert client.wait("live")["status"] == "Canceled"


def test_cancel_asks_before_it_kills(client):
    loop = "echo ready; while true; do sleep 0.05; done"
    client.job("asked", f"trap 'echo stopping; exit 0' TERM; {loop}")
    client.wait_for_log("asked", "ready")
    assert client.cancel("asked").status_code == 200
    assert client.wait("asked")["status"] == "Canceled"
    assert client.log("asked").endswith("stopping\n")


def test_a_job_that_does_not_stop_is_killed(client):
    client.job("deaf", "trap '' TERM; echo ready; while true; do sleep 0.05; done")
    client.wait_for_log("deaf", "ready")
    client.cancel("deaf")
    assert client.wait("deaf")["status"] == "Canceled"


def test_a_time_out_cancels(client):
    client.job("slow", "sleep 600", limits={"jobLimitsType": "Command", "timeout": "PT1S"})
    ended = client.wait("slow")
    assert ended["status"] == "Canceled"
    assert "time-out" in ended["warnings"][0]["message"]


def node_count(client):
    shown = client.get(CLUSTER).json()["properties"]["properties"]
    return shown["currentNodeCount"], shown["allocationState"]


def test_a_full_cluster_queues_jobs_and_others_go_on(client, azure):
    azure.admin.capacity(CLUSTER, 0)
    client.job("waits", "true", resources={"instanceCount": 2})
    client.wait("waits", "Queued")
    client.put(f"{WORKSPACE}/computes/roomy", compute(nodes=1))
    client.job("passes", "true", computeId=f"{WORKSPACE}/computes/roomy")
    assert client.wait("passes")["status"] == "Completed"
    assert client.details("waits")["status"] == "Queued"
    azure.admin.capacity(CLUSTER, None)
    assert client.wait("waits")["status"] == "Completed"


def test_a_cluster_scales_from_zero_and_back(client):
    client.job("busy", "sleep 600", resources={"instanceCount": 2})
    client.wait("busy", "Running")
    until(lambda: node_count(client) == (2, "Steady"))
    client.cancel("busy")
    client.wait("busy")
    until(lambda: node_count(client) == (0, "Steady"))


def test_a_deleted_cluster_takes_its_jobs_with_it(client, azure):
    other = f"{WORKSPACE}/computes/other"
    client.put(other, compute(nodes=1))
    client.job("on-other", "sleep 600", computeId=other)
    client.wait("on-other", "Running")
    client.job("for-other", "true", computeId=other)
    client.wait("for-other", "Queued")
    refused = client.ask("DELETE", other, underlyingResourceAction="Delete")
    assert refused.status_code == 409
    azure.resources.discard(other)
    assert client.wait("on-other")["status"] == "Canceled"
    assert client.wait("for-other")["status"] == "Failed"


def test_preemption_loses_the_disk_and_fails_as_azure_says_it(client, azure, results):
    client.job(
        "preempted",
        "echo kept > ${{outputs.run}}/kept; echo ready; trap '' TERM;"
        " while true; do date +%N > local; sleep 0.01; done",
        outputs=output("preempted"),
    )
    client.wait_for_log("preempted", "ready")
    wait_for_blobs(results, "preempted/")
    assert azure.admin.preempt(job=f"{WORKSPACE}/jobs/preempted") == 1
    ended = client.wait("preempted")
    assert ended["status"] == "Failed"
    assert ended["error"]["error"]["message"].startswith("PreemptionError: Nodes of this job")
    assert blobs(results, "preempted/") == {"preempted/kept": "kept\n"}
    assert client.log("preempted") == "ready\n"


ASK = (
    "import json, os, sys, time, urllib.request as u\n"
    "url = os.environ['AZURE_POD_IDENTITY_AUTHORITY_HOST'] + '/metadata/'\n"
    "def get(path):\n"
    "    asked = u.Request(url + path, headers={'Metadata': 'true'})\n"
    "    return u.build_opener(u.ProxyHandler({})).open(asked).read().decode()\n"
    "name = get('instance/compute/name?api-version=2021-02-01&format=text')\n"
    "print('asks', flush=True)\n"
    "events = []\n"
    "while not events:\n"
    "    time.sleep(0.05)\n"
    "    events = json.loads(get('scheduledevents?api-version=2020-07-01'))['Events']\n"
    "print(events[0]['EventType'], name in events[0]['Resources'], flush=True)\n"
)
"""Python program of a job that waits for an event of its VM."""


@pytest.mark.parametrize(
    ("answer", "message", "ends"),
    [
        ("exit 143", "exited with status code 143", "Preempt True\n"),
        ("trap 'echo TERM' TERM; while true; do sleep 0.05; done", "PreemptionError", None),
    ],
)
def test_a_notice_comes_before_nodes_are_taken_and_no_sigterm(client, azure, answer, message, ends):
    name = "noticed" if ends else "noticed-in-vain"
    client.job(name, f"/usr/bin/env python3 -c {shlex.quote(ASK)}; {answer}")
    client.wait_for_log(name, "asks")
    job = f"{WORKSPACE}/jobs/{name}"
    begun = time.monotonic()
    assert azure.admin.preempt(job=job, notice_seconds=3.0) == 1
    client.wait_for_log(name, "Preempt True")
    ended = client.wait(name)
    assert message in ended["error"]["error"]["message"]
    assert ended["status"] == "Failed"
    assert "TERM" not in client.log(name)
    assert (time.monotonic() - begun >= 3.0) == (ends is None)


@pytest.mark.parametrize(
    ("manner", "states"),
    [
        ("cancel", ["Running", "Canceled"]),
        ("restart", ["Running", "Queued", "Running", "Finalizing", "Completed"]),
    ],
)
def test_preemption_may_also_cancel_or_start_again(client, azure, results, manner, states):
    name = f"preempted-to-{manner}"
    first = "touch ${{outputs.run}}/been; echo first; sleep 600"
    line = f"if [ -e ${{{{outputs.run}}}}/been ]; then echo again; else {first}; fi"
    client.job(name, line, outputs=output(name))
    client.wait_for_log(name, "first")
    wait_for_blobs(results, name)
    azure.admin.preempt(cluster=CLUSTER, manner=manner)
    ended = client.wait(name)
    assert ended["error"] is None
    seen = [state for state, _ in azure.runs.get(f"{WORKSPACE}/jobs/{name}")["states"]]
    assert seen[seen.index("Running") :] == states
    assert client.log(name) == ("again\n" if manner == "restart" else "first\n")


def test_metrics_are_tracked_by_mlflows_protocol(client, azure):
    client.job("metrics", "true")
    client.wait("metrics")
    base = f"/mlflow/v1.0{WORKSPACE}/api/2.0/mlflow/runs"
    point = {"key": "loss", "value": 0.5, "timestamp": 1, "step": 3}
    assert client.ask("POST", f"{base}/log-metric", {"run_id": "metrics", **point}).ok
    batch = {"run_id": "metrics", "metrics": [{**point, "value": 0.25, "step": 4}],
             "params": [{"key": "preset", "value": "digits"}], "tags": []}  # fmt: skip
    assert client.ask("POST", f"{base}/log-batch", batch).ok
    run = client.get(f"{base}/get", run_id="metrics").json()["run"]
    assert run["info"]["status"] == "FINISHED"
    assert run["data"]["metrics"] == [{**point, "value": 0.25, "step": 4}]
    assert run["data"]["params"] == [{"key": "preset", "value": "digits"}]
    values = azure.mlflow.metrics(f"{WORKSPACE}/jobs/metrics")["loss"]
    assert [value["value"] for value in values] == [0.5, 0.25]


def test_the_trainers_own_client_reaches_the_service_from_a_job(client, azure):
    script = (
        "import os; from trainer.extras.mlflow.client import MlflowClient, Point;"
        " run = MlflowClient('unused', os.environ);"
        " run.describe({'epochs': 3}, {'trainer.run': 'a'});"
        " run.send([Point('train/loss', 0.5, 1, 3)]); run.end(7, failed=True)"
    )
    client.job("tracked", f"PYTHONPATH={ROOT} {sys.executable} -c {shlex.quote(script)}")
    assert client.wait("tracked")["status"] == "Completed", client.log("tracked")
    base = f"/mlflow/v2.0{WORKSPACE}/api/2.0/mlflow/runs"
    data = client.get(f"{base}/get", run_id="tracked").json()["run"]["data"]
    point = {"key": "train/loss", "value": 0.5, "timestamp": 1, "step": 3}
    assert data["metrics"] == [point]
    assert data["params"] == [{"key": "epochs", "value": "3"}]
    assert {tag["key"]: tag["value"] for tag in data["tags"]} == {
        "trainer.run": "a",
        "trainer.exit_status": "7",
    }


@pytest.mark.parametrize("experiment", ["experimentids/5", "experiments/e"])
def test_a_job_can_renew_its_token(client, experiment):
    client.job("renewed", "true")
    client.wait("renewed")
    given = client.get(f"/history/v1.0{WORKSPACE}/{experiment}/runs/renewed/token").json()
    claims = jwt.decode(given["token"], options={"verify_signature": False})
    assert claims["exp"] == pytest.approx(
        dt.datetime.fromisoformat(given["expiryTimeUtc"]).timestamp(), abs=2
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"computeId": f"{WORKSPACE}/computes/nobody"}, "Unknown compute target 'nobody'"),
        ({"environmentId": f"{WORKSPACE}/environments/image/versions/9"}, "environment image:9"),
        ({"codeId": f"{WORKSPACE}/codes/x/versions/1"}, "code x:1"),
        ({"inputs": {"d": {"jobInputType": "uri_folder", "uri": f"{WORKSPACE}/data/d/versions/1"}}},
         "data asset"),
        ({"outputs": {"o": {"jobOutputType": "uri_folder",
                            "uri": "azureml://datastores/nowhere/paths/x"}}}, "datastore: nowhere"),
        ({"resources": {"instanceCount": 3}}, "at most 2"),
        ({"command": None}, "Command field is required"),
    ],
)  # fmt: skip
def test_what_names_nothing_is_refused(client, changed, words):
    answer = client.job("refused", "true", **changed)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert client.get(f"{WORKSPACE}/jobs/refused").status_code == 404


def test_a_name_is_taken_once(client):
    assert client.job("once", "true").status_code == 201
    assert client.job("once", "true").status_code == 200
    refused = client.job("once", "false")
    assert refused.status_code == 400
    assert "already exists" in refused.json()["error"]["message"]
    assert client.job("once", "true", tags={"a": "b"}).status_code == 200
    client.wait("once")
    assert client.get(f"{WORKSPACE}/jobs/once").json()["properties"]["tags"] == {"a": "b"}


def test_the_run_history_changes_tags_as_the_studio_does(client):
    client.job("tagged", "true", tags={"run": "r"})
    path = f"/history/v1.0{WORKSPACE}/experiments/Default/runs/tagged"
    assert client.ask("PATCH", path, {"tags": {"canceled_by": "me"}}).ok
    found = client.get(f"{WORKSPACE}/jobs/tagged").json()["properties"]
    assert found["tags"] == {"run": "r", "canceled_by": "me"}
    assert client.ask("PATCH", f"{path}-not", {"tags": {}}).status_code == 404
