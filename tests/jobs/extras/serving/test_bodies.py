"""The bodies of endpoints and deployments are those that Azure's SDK would send."""

import json
import re
from dataclasses import replace

import pytest

from jobs.errors import SpecError
from jobs.extras.serving import monitoring
from jobs.extras.serving.bodies import (
    Deployment,
    deployment_body,
    endpoint_body,
    inference_config,
    serving_of,
    violations,
)
from jobs.extras.serving.traffic_policy import Traffic
from tests.jobs.support.platform import platform

WORKSPACE = "/subscriptions/s/resourceGroups/g/providers/X/workspaces/w"
ENDPOINT = f"{WORKSPACE}/onlineEndpoints/digits"
BLUE = Deployment("digits", "blue", "digits:1", "trainer-serving:a1", "Standard_F4s_v2", 4, 2)
PROFILES = {"private": "disabled", "allowlisted": "enabled"}


def plain(body):
    """Return a body with its texts in lower case where Azure compares without case."""
    return json.loads(re.sub('"(Disabled|Enabled)"', lambda m: m[0].lower(), json.dumps(body)))


@pytest.mark.parametrize("profile", PROFILES)
def test_an_endpoint_is_what_the_sdk_would_send(profile):
    entities = pytest.importorskip("azure.ai.ml.entities")
    outputs = platform(profile=profile)
    identity = entities.ManagedIdentityConfiguration(resource_id=outputs.serving.identity)
    known = entities.ManagedOnlineEndpoint(
        name="digits",
        auth_mode="aad_token",
        public_network_access=PROFILES[profile],
        traffic={"blue": 90, "green": 10},
        mirror_traffic={"red": 5},
        identity=entities.IdentityConfiguration(
            type="user_assigned", user_assigned_identities=[identity]
        ),
        tags={"stack": "dev", "x": "y"},
    )
    expected = known._to_rest_online_endpoint("westeurope").as_dict()
    del expected["properties"]["properties"]
    traffic = Traffic({"blue": 90, "green": 10}, {"red": 5})
    body = plain(endpoint_body(outputs, traffic, {"x": "y"}))
    assert body.pop("kind") == "Managed"
    assert body == expected


@pytest.mark.parametrize("profile", PROFILES)
def test_a_deployment_is_what_the_sdk_would_send(profile):
    entities = pytest.importorskip("azure.ai.ml.entities")
    body = plain(deployment_body(platform(profile=profile), WORKSPACE, BLUE))
    known = entities.ManagedOnlineDeployment(
        name="blue",
        endpoint_name="digits",
        model=f"{WORKSPACE}/models/digits/versions/1",
        environment=f"{WORKSPACE}/environments/trainer-serving/versions/a1",
        instance_type="Standard_F4s_v2",
        instance_count=2,
        egress_public_network_access=PROFILES[profile],
        app_insights_enabled=False,
        environment_variables=body["properties"]["environmentVariables"],
        liveness_probe=entities.ProbeSettings(
            initial_delay=300, period=30, timeout=5, failure_threshold=6, success_threshold=1
        ),
        readiness_probe=entities.ProbeSettings(
            initial_delay=10, period=10, timeout=5, failure_threshold=30, success_threshold=1
        ),
        request_settings=entities.OnlineRequestSettings(
            request_timeout_ms=10_000, max_concurrent_requests_per_instance=4, max_queue_wait_ms=500
        ),
        tags={"stack": "dev", "model": "digits:1"},
    )
    expected = known._to_rest_object("westeurope").as_dict()
    del expected["properties"]["properties"]
    assert (body.pop("kind"), body["properties"].pop("scaleSettings")) == (
        "Managed", {"scaleType": "Default"}
    )  # fmt: skip
    assert body == expected


def test_our_own_endpoints_break_no_rule():
    for profile in PROFILES:
        outputs = platform(profile=profile)
        body = {"name": "digits", **endpoint_body(outputs, Traffic(), {})}
        deployment = {"name": "blue", **deployment_body(outputs, WORKSPACE, BLUE)}
        assert violations(outputs, body, [deployment]) == []


@pytest.mark.parametrize(
    ("profile", "change", "why"),
    [
        ("private", {"authMode": "Key"}, "accepts Key"),
        ("allowlisted", {"authMode": "AMLToken"}, "accepts AMLToken"),
        ("private", {"publicNetworkAccess": "Enabled"}, "is public in a private stack"),
        ("allowlisted", {"publicNetworkAccess": "Enabled"}, None),
    ],
)
def test_an_endpoint_with_keys_or_a_public_address_breaks_a_rule(profile, change, why):
    outputs = platform(profile=profile)
    body = {"name": "digits", **endpoint_body(outputs, Traffic(), {})}
    body["properties"] |= change
    found = violations(outputs, body, [])
    assert found == [] if why is None else why in "".join(found)


def test_another_identity_and_open_egress_break_a_rule():
    outputs = platform()
    body = {"name": "digits", **endpoint_body(outputs, Traffic(), {})}
    body["identity"] = {"type": "SystemAssigned"}
    open_to_all = {"name": "blue", "properties": {"egressPublicNetworkAccess": "Enabled"}}
    found = "".join(violations(outputs, body, [open_to_all]))
    assert "acts as no identity" in found
    assert "deployment blue: may connect to public networks" in found


def test_every_route_has_a_path_that_azure_accepts():
    routes = inference_config()
    assert set(routes) == {"livenessRoute", "readinessRoute", "scoringRoute"}
    assert all(re.search(r"[a-zA-Z0-9_]", route["path"]) for route in routes.values())


def test_a_stack_without_an_identity_for_endpoints_says_what_to_set():
    with pytest.raises(SpecError, match="set `serving: true`"):
        serving_of(replace(platform(), serving=None))


def test_scaling_stays_between_its_bounds_and_does_not_swing():
    body = monitoring.autoscale_body(platform(), f"{ENDPOINT}/deployments/blue", "x", 2, 5)
    [profile] = body["properties"]["profiles"]
    assert profile["capacity"] == {"minimum": "2", "maximum": "5", "default": "2"}
    assert {rule["scaleAction"]["direction"] for rule in profile["rules"]} == {
        "Increase", "Decrease"
    }  # fmt: skip
    # After one of two instances was removed, the other is not busy enough to bring it back.
    assert 2 * monitoring.IDLE_PERCENT < monitoring.BUSY_PERCENT


def test_alerts_reach_the_people_of_the_stack():
    outputs = platform()
    bodies = monitoring.alert_bodies(outputs, ENDPOINT, 1500)
    assert set(bodies) == set(monitoring.alert_paths("/g", "digits"))
    for body in bodies.values():
        assert body["properties"]["scopes"] == [ENDPOINT]
        # By these tags, a teardown finds the remains of an endpoint that was deleted elsewhere.
        assert body["tags"] == {"stack": outputs.stack, "managed-by": "jobs"}
        assert body["properties"]["actions"] == [{"actionGroupId": outputs.serving.action_group}]
    [latency] = bodies["latency"]["properties"]["criteria"]["allOf"]
    assert (latency["metricName"], latency["threshold"]) == ("RequestLatency_P99", 1500)


@pytest.mark.parametrize("name", ["ab", "a" * 33, "Blue", "1st", "blue-", ""])
def test_names_that_azure_would_refuse_are_refused_before(name):
    with pytest.raises(SpecError, match="--to"):
        replace(BLUE, name=name)
