"""Commands against the simulator when it refuses, is busy, or lacks the requested things."""

import json
from dataclasses import replace
from itertools import islice

import pytest

from infra.outputs import to_dict
from jobs.assets.data_sets import DataSet, register
from jobs.azure import requests
from jobs.azure.requests import Requests
from jobs.azure.resource_manager import API_VERSION
from jobs.azure.workspace import connect
from jobs.cli import main
from jobs.errors import AccessError, RequestError
from jobs.spec import from_options
from tests.jobs.support.manifests import manifest
from tests.jobs.support.runs import container
from tests.jobs.support.tiny import wait_for

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("outputs")]


@pytest.fixture
def other(live, tmp_path, monkeypatch):
    """Lets the commands read changed outputs."""

    def change(**changes):
        file = tmp_path / "outputs.json"
        file.write_text(json.dumps(to_dict(replace(live.outputs, **changes))))
        monkeypatch.setenv("JOBS_OUTPUTS", str(file))

    return change


def test_a_platform_where_nothing_runs_costs_nothing(capsys):
    def nothing():
        assert main(["status"]) == 0
        return "no nodes are allocated, so no cluster costs anything" in capsys.readouterr().out

    # Nodes that tests before have used stay for a moment.
    wait_for(nothing)


def test_status_is_one_document_for_a_program(capsys, outputs):
    assert main(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert outputs.clusters["gpu"].name in [one["cluster"] for one in found["clusters"]]


def test_status_shows_compute_that_the_stack_does_not_declare(live, capsys):
    size = {"vmSize": "Standard_D4ads_v5"}
    for name, kind, more in (
        ("by-hand", "ComputeInstance", {}),
        ("not-deleted", "AmlCompute", {"scaleSettings": {"maxNodeCount": 1}}),
    ):
        properties = {"computeType": kind, "properties": {**size, **more}}
        body = {"location": "westeurope", "properties": properties}
        live.azure.put(f"{live.workspace}/computes/{name}", API_VERSION, body)
    try:
        live.azure.admin.forget_requests()
        assert main(["status"]) == 0
        asked = [one.path for one in live.azure.requests if "/computes" in one.path]
        text = capsys.readouterr().out
        assert main(["status", "--json"]) == 0
        known = {one["cluster"] for one in json.loads(capsys.readouterr().out)["clusters"]}
    finally:
        for name in ("by-hand", "not-deleted"):
            live.azure.resources.discard(f"{live.workspace}/computes/{name}")
    assert "  by-hand: 1 x Standard_D4ads_v5 (Dedicated): compute instance, Running\n" in text
    assert "no nodes are allocated" not in text
    assert {"by-hand", "not-deleted"} < known
    assert len(asked) == 1


def test_preflight_finds_everything_that_a_run_needs(capsys):
    assert main(["preflight", "--kind", "smoke"]) == 0
    text = capsys.readouterr().out
    for point in (
        "sign-in",
        "subscription",
        "workspace",
        "run history",
        "storage",
        "cluster",
        "quota",
        "image",
    ):
        assert f"ok    {point}:" in text


def test_every_request_names_the_product(live):
    live.azure.admin.forget_requests()
    assert main(["preflight"]) == 0
    services = {request.path.split("/")[1] for request in live.azure.requests}
    assert {"subscriptions", live.azure.options.tenant_id} < services  # storage as well
    others = [r for r in live.azure.requests if not r.user_agent.startswith("ml-azure-horovod ")]
    assert others == []


def test_preflight_names_what_is_to_mend_and_goes_on(capsys, outputs, other):
    gpu = replace(outputs.clusters["gpu"], size="Standard_NC24ads_A100_v4", gpus_per_node=1)
    other(clusters={**outputs.clusters, "gpu": gpu})
    assert main(["preflight", "--nodes", "2", "--json"]) == 1
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert not found["cluster"]["good"]
    assert "has Standard_ND40rs_v2, not Standard_NC24ads_A100_v4" in found["cluster"]["text"]
    assert found["quota"]["good"]


def test_preflight_says_that_data_are_missing_before_a_job_fails_by_it(capsys):
    assert main(["preflight", "--preset", "imagenet-ndv2", "--data.path", "nowhere"]) == 1
    assert "manifest.json is missing in folder nowhere" in capsys.readouterr().out


def test_preflight_says_that_code_is_incomplete(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(from_options, "REPOSITORY", tmp_path)
    assert main(["preflight", "--kind", "smoke"]) == 1
    assert f"STOP  options: {tmp_path}" in capsys.readouterr().out
    assert main(["preflight"]) == 0


def test_preflight_reads_quota(capsys, live, outputs):
    live.azure.admin.quota(outputs.region, "totalLowPriorityCores", 100)
    try:
        assert main(["preflight", "--nodes", "4"]) == 1
        text = capsys.readouterr().out
        assert "STOP  quota: 4 x Standard_ND40rs_v2 need 160 Spot (low-priority) cores" in text
        assert "enough for 2 nodes" in text
    finally:
        live.azure.admin.quota(outputs.region, "totalLowPriorityCores", 1000)


def test_preflight_does_not_call_a_quota_good_that_azure_does_not_report(capsys, live):
    live.azure.admin.fault("GET .*/usages", status=403, code="AuthorizationFailed", times=2)
    assert main(["preflight"]) == 0
    text = capsys.readouterr().out
    assert "?     quota: unknown, as Azure does not report the cores of Standard_ND40rs_v2" in text
    assert "a run could start, if quota allows it" in text
    assert main(["preflight", "--json"]) == 0
    found = {one["name"]: one["good"] for one in json.loads(capsys.readouterr().out)}
    assert found["quota"] is None
    assert found["cluster"] is True


def test_a_workspace_that_is_gone_is_told_and_not_taken_for_a_missing_run(capsys, other):
    other(workspace="gone")
    for command in (["status"], ["follow", "night"], ["cancel", "night"], ["list"]):
        assert main(command) == 1
        text = capsys.readouterr().err
        assert "gone" in text
        assert "not found" in text


def test_a_cluster_that_is_gone_is_told_before_submitting(
    capsys,
    live,
    outputs,
    other,
):
    gone = replace(outputs.clusters["cpu"], name="prep-gone")
    other(clusters={**outputs.clusters, "cpu": gone})
    assert main(["submit", "--kind", "smoke", "--name", "nocluster"]) == 1
    assert "cluster prep-gone: does not exist in workspace" in capsys.readouterr().err
    assert not [
        r for r in live.azure.requests if r.method in ("PUT", "POST") and "/jobs/" in r.path
    ]


def test_a_data_set_that_is_not_registered_is_told_before_submitting(capsys):
    args = ["submit", "--preset", "imagenet-ndv2", "--data.asset", "imagenet:3", "--name", "nodata"]
    assert main(args) == 1
    assert "--data.asset: imagenet:3 is not registered" in capsys.readouterr().err


def test_a_secret_that_is_wrong_is_told_as_a_sign_in(capsys, monkeypatch):
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "wrong")
    assert main(["status"]) == 22
    text = capsys.readouterr().err
    assert "not signed in to Azure" in text
    assert "az login --tenant" in text
    assert "wrong" not in text.replace("(wrong", "")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "InvalidAuthenticationToken", "rejects this sign-in"),
        (403, "AuthorizationFailed", "needs the role AzureML Data Scientist on workspace"),
    ],
)
def test_a_refusal_names_who_asks_and_what_is_missing(capsys, live, status, code, words):
    live.azure.admin.fault("GET .*/computes", status=status, code=code, times=None)
    assert main(["status"]) == 22
    text = capsys.readouterr().err
    assert words in text
    if status == 403:
        assert live.azure.environment["AZURE_CLIENT_ID"] in text


def test_what_is_refused_for_a_moment_is_asked_again_when_azure_says(live):
    live.azure.admin.fault("GET .*/computes", status=429, retry_after=1, times=1)
    assert main(["status"]) == 0
    asked = [r for r in live.azure.requests if r.path.endswith("/computes")]
    assert [r.status for r in asked] == [429, 200]
    assert asked[1].at - asked[0].at >= 1


def test_a_pause_of_hours_is_told_at_once(capsys, live):
    live.azure.admin.forget_requests()
    live.azure.admin.fault("GET .*/computes", status=429, retry_after=7200, times=1)
    assert main(["status"]) == 22
    assert len([r for r in live.azure.requests if r.path.endswith("/computes")]) == 1
    assert "try again in 2 h 0 min" in capsys.readouterr().err


def test_a_network_that_is_not_let_in_is_told_for_a_private_stack(live):
    live.azure.admin.fault(
        "GET .*/computes/",
        status=403,
        code="Forbidden",
        message="Public network access is disabled",
    )
    with pytest.raises(
        AccessError, match="is private: its services can be reached only from inside"
    ):
        connect(live.outputs).manager.get("computes/x")


def test_lists_are_read_to_their_last_page(live, monkeypatch):
    manager = connect(live.outputs).manager
    pages = {
        f"{manager.workspace_id}/things?api-version={API_VERSION}": {
            "value": [{"name": 1}, {"name": 2}],
            "nextLink": f"{live.azure.url}/more?page=2",
        },
        "/more?page=2": {"value": [{"name": 3}]},
    }
    monkeypatch.setattr(
        Requests, "send", lambda _, method, url, *body: pages[url.removeprefix(live.azure.url)]
    )
    monkeypatch.setattr(Requests, "manager_url", live.azure.url)
    assert [item["name"] for item in manager.items("things")] == [1, 2, 3]
    pages["/more?page=2"] = {"value": [], "nextLink": "https://elsewhere.example.com/steal"}
    with pytest.raises(Exception, match="another host"):
        list(manager.items("things"))
    pages["/more?page=2"] = {
        "value": [{"name": 3}],
        "nextLink": f"{live.azure.url}/more?page=2",
    }
    with pytest.raises(RequestError, match="names a page again that was already read"):
        # Bounded, so that a list without an end fails instead of hanging.
        list(islice(manager.items("things"), 10))


def test_a_registered_data_set_is_read_before_a_run_is_submitted(live, outputs, capsys, tmp_path):
    pets = manifest(train=9000, validation=9000, classes=2)
    pets.save(tmp_path)
    store = outputs.datastores.prepared
    content = (tmp_path / "manifest.json").read_bytes()
    container(live, "prepared").upload_blob("pets/manifest.json", content)
    asset = DataSet("pets", pets.version, store.name, "pets", {})
    register(connect(outputs).manager, asset)
    args = ["--preset", "imagenet-ndv2", "--nodes", "2", "--data.asset", asset.reference]
    live.azure.admin.forget_requests()
    assert main(["submit", *args, "--name", "pets", "--dry-run"]) == 0
    asked = [
        r for r in live.azure.requests if r.path.endswith(f"/data/pets/versions/{pets.version}")
    ]
    assert len(asked) == 1
    text = capsys.readouterr().out
    assert f"version {pets.version}: 9,000 training images, 2 classes" in text
    assert "steps " in text
    assert main(["preflight", *args]) == 0
    assert "data: version" in capsys.readouterr().out
    assert main(["submit", *args, "--name", "pets", "--", "--model.classes", "1000"]) == 1
    assert "--model.classes: 1000, but the data set has 2 classes" in capsys.readouterr().err


def test_storage_that_refuses_is_told_with_the_role(live, capsys):
    live.azure.admin.fault("(GET|HEAD) .*preflight-looks-for-this", status=403,
                           code="AuthorizationPermissionMismatch", times=None)  # fmt: skip
    assert main(["preflight"]) == 1
    text = capsys.readouterr().out
    assert "STOP  storage:" in text
    assert "Storage Blob Data Reader" in text


def test_a_network_that_is_away_is_no_question_of_the_sign_in(capsys, monkeypatch):
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://127.0.0.1:9")
    monkeypatch.setattr(requests, "RETRIES", 0)
    assert main(["status"]) == 22
    text = capsys.readouterr().err
    assert "no response from" in text
    assert "az login" not in text
