"""Endpoints against the simulator: deploy, score, divide, roll back, delete."""

import json

import pytest

from common.errors import INTERRUPTED, ConfigError, UserError
from infra.checks import needs
from jobs.azure.workspace import connect
from jobs.commands import status
from jobs.commands.status import StatusOptions
from jobs.console import Console
from jobs.errors import AccessError, MissingError, RequestError, SignInError, SpecError
from jobs.extras.serving import deploy, score, traffic, undeploy
from jobs.extras.serving.deploy import DeployOptions
from jobs.extras.serving.endpoints import PROVIDERS, Endpoints, FailedError
from jobs.extras.serving.score import ScoreOptions
from jobs.extras.serving.traffic import TrafficOptions
from jobs.extras.serving.traffic_policy import TrafficError
from jobs.extras.serving.undeploy import UndeployOptions
from tests.jobs.support.runs import answer
from tests.jobs.support.serving import KIND, delete_endpoints, register_model

FAST = {"poll_seconds": 0.05, "wait_minutes": 1.0}


@pytest.fixture(autouse=True)
def _without_endpoints(live):
    yield
    delete_endpoints(live)


@pytest.fixture
def image(tmp_path):
    file = tmp_path / "seven.png"
    file.write_bytes(bytes([7, 1, 2]))
    return file


def deployed(live, capsys, model, **options):
    options = DeployOptions(model=model, **{"endpoint": "digits", **FAST, **options})
    assert deploy.run(options, live.outputs, as_json=True) == 0
    return answer(capsys)


def names(live, image, capsys, count=1, **options):
    """Return the class names of several requests, which tell the model and its version."""
    asked = ScoreOptions(images=(str(image),) * count, endpoint="digits", **options)
    assert score.run(asked, live.outputs, as_json=True) == 0
    return [one["classes"][0]["class_name"] for one in answer(capsys)]


def divided(live, capsys, **options):
    options = TrafficOptions(endpoint="digits", **options)
    assert traffic.run(options, live.outputs, as_json=True) == 0
    return answer(capsys)["traffic"]


def test_the_first_deployment_answers_all_requests(live, capsys, image):
    done = deployed(live, capsys, register_model(live, "digits", "1"), images=(str(image),))
    assert done["traffic"] == {"blue": 100}
    assert names(live, image, capsys) == ["graph 1"]
    [endpoint] = live.azure.resources.of_kind(KIND)
    assert endpoint["properties"]["authMode"] == "AADToken"
    assert endpoint["properties"]["publicNetworkAccess"] == "Disabled"
    assert list(endpoint["identity"]["userAssignedIdentities"]) == [live.outputs.serving.identity]
    [deployment] = live.azure.resources.of_kind(f"{KIND}/deployments")
    assert deployment["properties"]["egressPublicNetworkAccess"] == "Disabled"


def test_the_providers_are_those_that_the_stack_asks_for():
    assert PROVIDERS == needs.OF_ENDPOINTS


def test_providers_that_endpoints_need_are_named_where_azures_refusal_names_none(live, capsys):
    live.azure.admin.unregister("Microsoft.Cdn")
    model = register_model(live, "digits", "1")
    options = DeployOptions(model=model, endpoint="digits", **FAST)
    with pytest.raises(RequestError) as caught:
        deploy.run(options, live.outputs, as_json=True)
    assert "Resource provider [N/A] isn't registered" in str(caught.value)
    assert "az provider register --namespace Microsoft.Cdn --wait" in str(caught.value)
    assert "PolicyInsights" not in str(caught.value)
    live.azure.admin.clear_faults()
    assert deployed(live, capsys, model)["traffic"] == {"blue": 100}


def test_what_belongs_to_a_deployment_is_made_and_deleted_with_it(live, capsys):
    deployed(live, capsys, register_model(live, "digits", "1"), max_instances=3)

    def made():
        return {
            one["id"].split("/providers/Microsoft.Insights/")[1]
            for one in live.azure.resources.below("", "/Microsoft.Insights/")
            if "digits" in one["id"]
        }

    assert made() == {
        "autoscaleSettings/digits-blue", "diagnosticSettings/logs",
        "metricAlerts/digits-failures", "metricAlerts/digits-latency",
    }  # fmt: skip
    options = UndeployOptions(endpoint="digits", yes=True, poll_seconds=0.05)
    assert undeploy.run(options, live.outputs, as_json=True) == 0
    assert answer(capsys)["deleted"] is True
    assert (made(), live.azure.resources.of_kind(KIND)) == (set(), [])
    assert undeploy.run(options, live.outputs, as_json=True) == 0
    assert answer(capsys)["deleted"] is False


def test_a_second_version_gets_its_part_is_promoted_and_rolled_back(live, capsys, image):
    deployed(live, capsys, register_model(live, "digits", "1"))
    second = register_model(live, "digits", "2")
    done = deployed(live, capsys, second, to="green", traffic=10)
    assert done["traffic"] == {"blue": 90, "green": 10}
    found = names(live, image, capsys, count=100)
    assert (found.count("graph 1"), found.count("graph 2")) == (90, 10)
    assert names(live, image, capsys, deployment="green") == ["graph 2"]
    assert divided(live, capsys, to="green") == {"green": 100}
    assert set(names(live, image, capsys, count=5)) == {"graph 2"}
    assert divided(live, capsys, back=True) == {"blue": 90, "green": 10}


def test_fewer_instances_are_given_back_and_those_that_nobody_names_stay(live, capsys):
    model = register_model(live, "digits", "1")

    def instances(**options):
        deployed(live, capsys, model, **options)
        [deployment] = live.azure.resources.of_kind(f"{KIND}/deployments")
        return deployment["sku"]["capacity"]

    assert instances(instances=3) == 3
    assert instances() == 3
    assert instances(instances=2) == 2
    # The number that the scaling rules have chosen between the two stays.
    assert instances(instances=1, max_instances=4) == 2
    assert instances(max_instances=1) == 1


def test_many_images_are_never_all_in_memory(live, capsys, image, monkeypatch):
    deployed(live, capsys, register_model(live, "digits", "1"))
    monkeypatch.setattr(score, "BATCH", 4)
    read = []

    def images():
        for number in range(10):
            read.append(number)
            yield str(number), image.read_bytes()

    workspace = connect(live.outputs)
    endpoint = Endpoints(workspace.manager, Console()).get("digits")
    answers = score.score(workspace.requests, endpoint, images(), None)
    ahead = [len(read) - int(scored.image) for scored in answers]
    assert len(ahead) == 10
    assert max(ahead) <= 4


def test_the_same_command_again_changes_nothing(live, capsys):
    model = register_model(live, "digits", "1")
    deployed(live, capsys, model)
    live.azure.admin.forget_requests()
    deployed(live, capsys, model)
    changed = [r.path for r in live.azure.requests if r.method == "PUT"]
    assert [path for path in changed if "Microsoft.Insights" not in path] == []


def test_another_model_does_not_replace_the_one_that_answers(live, capsys):
    deployed(live, capsys, register_model(live, "digits", "1"))
    with pytest.raises(SpecError, match=r"blue answers 100 % .* such as --to green"):
        deployed(live, capsys, register_model(live, "digits", "2"))


def test_a_deployment_that_fails_the_smoke_test_gets_no_requests(live, capsys, image, tmp_path):
    deployed(live, capsys, register_model(live, "digits", "1"))
    expected = tmp_path / "expected.jsonl"
    line = {"image": str(image), "classes": [{"class_id": 3, "class_name": "3"}]}
    expected.write_text(json.dumps(line) + "\n")
    second = register_model(live, "digits", "2")
    with pytest.raises(UserError, match=r"smoke test of green failed.*\n.*class 3 was expected"):
        deployed(live, capsys, second, to="green", traffic=10, expected=str(expected))
    capsys.readouterr()
    assert set(names(live, image, capsys, count=10)) == {"graph 1"}
    line["classes"][0]["class_id"] = 7
    expected.write_text(json.dumps(line) + "\n")
    done = deployed(live, capsys, second, to="green", traffic=10, expected=str(expected))
    assert (done["tested_images"], done["traffic"]) == (1, {"blue": 90, "green": 10})


def test_a_server_that_does_not_start_is_an_error_with_its_last_lines(live, capsys):
    broken = register_model(live, "digits", "3", graph="broken")
    with pytest.raises(FailedError, match=r"(?s)deployment blue.*the model cannot be loaded"):
        deployed(live, capsys, broken)


def test_a_refused_image_is_an_error_with_the_servers_reason(live, capsys, tmp_path):
    deployed(live, capsys, register_model(live, "digits", "1"))
    empty = tmp_path / "empty.png"
    empty.touch()
    with pytest.raises(UserError, match=r"empty.png: .*the image: is empty"):
        names(live, empty, capsys)


def test_an_endpoint_with_keys_or_a_public_address_is_refused(live, capsys):
    model = register_model(live, "digits", "1")
    live.azure.put(f"{live.workspace}/onlineEndpoints/digits", "", {
        "location": "westeurope", "kind": "Managed", "identity": {"type": "SystemAssigned"},
        "properties": {"authMode": "Key", "publicNetworkAccess": "Enabled"},
    })  # fmt: skip
    with pytest.raises(SpecError) as refused:
        deployed(live, capsys, model)
    assert "accepts Key" in str(refused.value)
    assert "is public in a private stack" in str(refused.value)


def test_a_model_outside_the_default_account_is_refused(live, capsys):
    store = live.outputs.datastores.prepared.name
    with pytest.raises(SpecError, match="lies outside datastore"):
        deployed(live, capsys, register_model(live, "far", "1", store=store))


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"model": "none:1"}, MissingError, "none:1: is not registered"),
        ({"model": "digits"}, ConfigError, "must be NAME:VERSION"),
        ({"endpoint": "X"}, SpecError, "--endpoint: 'X'"),
        ({"size": "Standard_X1"}, SpecError, "no Standard_X1"),
        ({"instances": 2, "max_instances": 1}, ConfigError, "less than --instances"),
        ({"instances": 300}, UserError, "Not enough quota"),
        ({"images": ("missing.png",)}, UserError, "cannot be read"),
    ],
)
def test_what_cannot_be_deployed_is_said(live, capsys, options, error, why):
    model = register_model(live, "digits", "1")
    with pytest.raises(error, match=why):
        deployed(live, capsys, **{"model": model, **options})
    assert live.azure.resources.of_kind(f"{KIND}/deployments") == []


def test_a_deployment_that_answers_is_not_deleted_alone(live, capsys):
    deployed(live, capsys, register_model(live, "digits", "1"))
    deployed(live, capsys, register_model(live, "digits", "2"), to="green")
    options = UndeployOptions(endpoint="digits", deployment="blue", poll_seconds=0.05)
    with pytest.raises(TrafficError, match="answers 100 %"):
        undeploy.run(options, live.outputs, as_json=True)
    options = UndeployOptions(endpoint="digits", deployment="green", poll_seconds=0.05)
    assert undeploy.run(options, live.outputs, as_json=True) == 0
    left = live.azure.resources.of_kind(f"{KIND}/deployments")
    assert [one["name"] for one in left] == ["blue"]


def test_the_status_shows_traffic_and_cost(live, capsys):
    deployed(live, capsys, register_model(live, "digits", "1"), instances=2)
    assert status.run(StatusOptions(), live.outputs, as_json=False) == 0
    shown = capsys.readouterr().out
    assert "digits    blue        Succeeded  100 %    digits:1  2 x Standard_D4as_v4" in shown
    # The simulator's price: 4 cores at 0.05 USD an hour, each.
    assert "endpoints cost 0.4000 USD an hour" in shown
    assert status.run(StatusOptions(), live.outputs, as_json=True) == 0
    [endpoint] = answer(capsys)["endpoints"]
    assert endpoint["hourly"] == {"USD": pytest.approx(0.4)}


def test_traffic_needs_one_of_its_options(live):
    with pytest.raises(ConfigError, match="either --to DEPLOYMENT or --back"):
        traffic.run(TrafficOptions(endpoint="digits"), live.outputs, as_json=True)
    with pytest.raises(MissingError, match="`python -m jobs status` lists"):
        traffic.run(TrafficOptions(endpoint="digits", to="blue"), live.outputs, as_json=True)


def test_an_interruption_says_how_to_continue_and_the_same_command_does(live, capsys, monkeypatch):
    model = register_model(live, "digits", "1")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(deploy.score, "score", interrupted)
        options = DeployOptions(model=model, endpoint="digits", **FAST)
        assert deploy.run(options, live.outputs, as_json=True) == INTERRUPTED
    assert "`python -m jobs undeploy --endpoint digits` deletes" in capsys.readouterr().err
    [endpoint] = live.azure.resources.of_kind(KIND)
    assert endpoint["properties"]["traffic"] == {}
    assert deployed(live, capsys, model)["traffic"] == {"blue": 100}


def test_a_token_for_another_service_is_refused(live, capsys, image, monkeypatch):
    deployed(live, capsys, register_model(live, "digits", "1"))
    monkeypatch.setattr(score, "SCOPE", "https://storage.azure.com/.default")
    with pytest.raises(SignInError):
        names(live, image, capsys)


def test_without_the_role_to_ask_the_action_is_named(live, capsys, image):
    deployed(live, capsys, register_model(live, "digits", "1"))
    live.azure.admin.forbid(live.azure.environment["AZURE_CLIENT_ID"], "^POST /inference/")
    with pytest.raises(AccessError, match="onlineEndpoints/score/action"):
        names(live, image, capsys)
