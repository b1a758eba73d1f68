"""The first `up` of an Azure that is not ready yet: what passes by itself, and what has a cure."""

import contextlib
import json

import pytest

from rehearsal.pulumi.deployment import SUBSCRIPTION
from tests.rehearsal.scenarios.cloud import cloud_in
from tests.rehearsal.support.small_platform import Client

pytestmark = pytest.mark.rehearse_all

ELSEWHERE = "/subscriptions/00000000-0000-4000-8000-00000000000f/resourceGroups/theirs"
ACCOUNTS = "Microsoft.Storage/storageAccounts"
REFUSED = "Azure refuses this for now"
UP = ("up", "--yes", "True")


def conflicts(cloud):
    return [one for one in cloud.azure.requests if one.status == 409]


def planned(cloud):
    """Resources that a deployment would create."""
    steps = json.loads(cloud.pulumi("preview", "--json"))["steps"]
    return [step["newState"] for step in steps]


def is_complete(cloud):
    """Whether a further deployment would change nothing."""
    return "unchanged" in cloud.pulumi("preview", "--expect-no-changes")


def test_the_first_up_succeeds_where_accounts_allow_one_operation_at_a_time(tmp_path):
    with cloud_in(tmp_path, account_seconds=0.4) as cloud:
        assert REFUSED not in cloud.jobs(*UP).words
        assert conflicts(cloud) == []
        assert is_complete(cloud)


def test_the_first_up_waits_for_its_roles(tmp_path):
    with cloud_in(tmp_path, account_seconds=0.1, role_seconds=15.0) as cloud:
        said = cloud.jobs(*UP).words
        assert REFUSED in said
        assert "Workspace workspace: roles assigned by this deployment have no effect yet" in said
        assert is_complete(cloud)


def test_an_endpoint_that_lost_a_race_is_finished_by_the_same_command(tmp_path):
    with cloud_in(tmp_path, account_seconds=3.0) as cloud, contextlib.ExitStack() as others:
        command = cloud.start(*UP)
        account = None

        def connects():
            nonlocal account
            accounts = cloud.azure.resources.of_kind(ACCOUNTS)
            account = next((one["id"] for one in accounts if "std" in one["name"]), None)
            containers = cloud.azure.resources.of_kind(f"{ACCOUNTS}/blobServices/containers")
            return account and any(one["name"] == "results" for one in containers)

        others.callback(command.kill)
        assert command.wait_for(connects), command.words
        # Somebody else's operations, one of which begins before the endpoint's.
        somebody = Client(cloud.azure)
        policy = f"{account}/managementPolicies/theirs"
        while not conflicts(cloud) and not command.ended:
            somebody.put(policy, {})
        assert command.wait() == 0, command.words
        assert "another operation on it, or on what it refers to, is running" in command.words
        assert is_complete(cloud)


def test_an_up_stops_at_a_provider_that_is_not_registered_and_continues_afterwards(tmp_path):
    with cloud_in(tmp_path) as cloud:
        cloud.azure.admin.unregister("Microsoft.MachineLearningServices")
        said = cloud.jobs(*UP, status=1).words
        assert "not registered to use namespace 'Microsoft.MachineLearningServices'" in said
        assert "az provider register" in said
        assert REFUSED not in said
        cloud.azure.admin.clear_faults()
        cloud.jobs(*UP)
        assert is_complete(cloud)


def test_an_up_stops_at_a_cluster_without_quota_and_continues_afterwards(tmp_path):
    with cloud_in(tmp_path) as cloud:
        cloud.azure.admin.quota("westeurope", "totalLowPriorityCores", 0)
        said = cloud.jobs(*UP, status=1).words
        assert "vCPU quota of 0" in said
        assert "request quota for the size" in said
        assert REFUSED not in said
        cloud.azure.admin.quota("westeurope", "totalLowPriorityCores", 200)
        cloud.jobs(*UP)
        assert is_complete(cloud)


def test_an_up_changes_nothing_if_a_name_is_taken_and_continues_when_it_is_free(tmp_path):
    with cloud_in(tmp_path) as cloud:
        name = next(
            resource["inputs"]["accountName"]
            for resource in planned(cloud)
            if resource["type"] == "azure-native:storage:StorageAccount"
        )
        cloud.azure.put(ELSEWHERE, "", {"location": "westeurope"})
        theirs = f"{ELSEWHERE}/providers/{ACCOUNTS}/{name}"
        cloud.azure.put(theirs, "", {"location": "westeurope", "kind": "StorageV2"})
        said = cloud.jobs(*UP, status=1).words
        assert f"{name}: the name is taken by somebody else" in said
        assert "nothing was changed" in said
        assert not [one for one in cloud.changes() if SUBSCRIPTION in one]
        cloud.azure.resources.discard(theirs)
        cloud.jobs(*UP)
        assert is_complete(cloud)
