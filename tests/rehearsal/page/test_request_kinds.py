"""Logged requests are counted by their kind."""

import pytest

from rehearsal.control_plane.request_log import LoggedRequest
from rehearsal.page.request_kinds import RequestKind, classify, count_kinds

ARM = "/subscriptions/S-1/resourceGroups/secret-group"
WORKSPACE = f"{ARM}/providers/Microsoft.MachineLearningServices/workspaces/secret-ws"


@pytest.mark.parametrize(
    ("method", "path", "query", "service", "resource"),
    [
        ("PUT", ARM, "api-version=1", "resource manager", "resourceGroups"),
        ("GET", f"{ARM}/resources", "", "resource manager", "resources: list"),
        ("GET", "/subscriptions/S-1", "", "resource manager", "subscriptions"),
        ("GET", WORKSPACE, "", "resource manager", "workspaces"),
        ("PUT", f"{WORKSPACE}/jobs/secret", "", "resource manager", "workspaces/jobs"),
        ("GET", f"{WORKSPACE}/jobs", "$top=5", "resource manager", "workspaces/jobs: list"),
        ("POST", f"{WORKSPACE}/jobs/secret/cancel", "", "resource manager",
         "workspaces/jobs: cancel"),
        ("PUT", f"{WORKSPACE}/environments/secret/versions/3", "", "resource manager",
         "workspaces/environments/versions"),
        ("PUT", f"{WORKSPACE}/providers/Microsoft.Authorization/roleAssignments/secret", "",
         "resource manager", "roleAssignments"),
        ("GET", f"{ARM}/providers/Microsoft.Network/virtualNetworks", "", "resource manager",
         "virtualNetworks: list"),
        ("PUT", f"{ARM}/providers/Microsoft.OperationalInsights/workspaces/secret", "",
         "resource manager", "OperationalInsights/workspaces"),
        ("POST", f"{ARM}/providers/Microsoft.KeyVault/locations/l/deletedVaults/secret/purge", "",
         "resource manager", "locations/deletedVaults: purge"),
        ("GET", "/subscriptions/", "", "resource manager", "other"),
        ("GET", "/secretacc/secret-container", "restype=container&comp=list&prefix=secret",
         "blob storage", "container: list"),
        ("PUT", "/secretacc/secret-container", "restype=container", "blob storage", "container"),
        ("PUT", "/secretacc/c/secret/blob", "comp=block&blockid=secret", "blob storage",
         "blob: block"),
        ("PUT", "/secretacc/c/secret", "comp=blocklist", "blob storage", "blob: block list"),
        ("PUT", "/secretacc/c/secret", "comp=secret", "blob storage", "blob"),
        ("GET", "/secretacc/c/secret", "sv=1&sig=secret", "blob storage", "blob"),
        ("GET", "/secretacc", "comp=list", "blob storage", "containers: list"),
        ("GET", f"/history/v1.0{WORKSPACE}/experiments/secret/runs/secret/details", "",
         "run history", "runs: details"),
        ("PATCH", f"/history/v1.0{WORKSPACE}/runs/secret", "", "run history", "runs"),
        ("POST", f"/history/v1.0{WORKSPACE}/rundata", "", "run history", "rundata"),
        ("GET", f"/history/v1.0{WORKSPACE}/secret", "", "run history", "other"),
        ("POST", f"/mlflow/v1.0{WORKSPACE}/api/2.0/mlflow/runs/log-batch", "", "metrics",
         "runs/log-batch"),
        ("GET", f"/mlflow/v1.0{WORKSPACE}/api/2.0/mlflow-artifacts/Secret", "", "metrics", "other"),
        ("POST", "/tenant-1/oauth2/v2.0/token", "", "sign-in", "token"),
        ("GET", "/tenant-1/v2.0/.well-known/openid-configuration", "", "sign-in", "configuration"),
        ("GET", "/common/discovery/instance", "", "sign-in", "configuration"),
        ("GET", "/metadata/endpoints", "api-version=2019-05-01", "sign-in", "cloud endpoints"),
    ],
)  # fmt: skip
def test_a_request_is_told_by_what_it_asked_for(method, path, query, service, resource):
    found = classify(method, path, query)
    assert found == (service, resource)
    assert "secret" not in found[1].lower()


def test_requests_are_counted_by_kind():
    asked = [
        LoggedRequest("GET", f"{WORKSPACE}/jobs/a", "", 200, "me", 1.0, 0.010),
        LoggedRequest("GET", f"{WORKSPACE}/jobs/b", "x=1", 404, "me", 2.0, 0.030),
        LoggedRequest("GET", f"{WORKSPACE}/jobs/c", "", 0, "me", 3.0, 0.020),
        LoggedRequest("GET", f"{WORKSPACE}/jobs/d", "", 503, "me", 3.5),
        LoggedRequest("PUT", f"{WORKSPACE}/jobs/a", "", 201, "me", 4.0),
        LoggedRequest("GET", "/acc/c/b", "", 206, "", 5.0),
        LoggedRequest("GET", "/acc/c/b", "", 416, "", 6.0),
        LoggedRequest("GET", "/acc/c/b", "", 403, "", 7.0),
    ]
    assert count_kinds(asked) == (
        RequestKind("resource manager", "GET", "workspaces/jobs", 4, 2, 20.0, absent=1),
        RequestKind("resource manager", "PUT", "workspaces/jobs", 1, 0, None),
        RequestKind("blob storage", "GET", "blob", 3, 1, None, absent=1),
    )
    assert count_kinds([]) == ()
