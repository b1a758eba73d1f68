"""The first `up` of an Azure that is not ready yet: states that pass by themselves, and states with
a cure."""

import json
import re
import threading
from contextlib import contextmanager

import pytest

from rehearsal.pulumi.deployment import SUBSCRIPTION
from rehearsal.resources.account_operations import AccountOperations
from rehearsal.resources.roles import Roles
from tests.rehearsal.scenarios.cloud import cloud_in
from tests.rehearsal.support.small_platform import Client
from tests.rehearsal.support.waiting import SECONDS

pytestmark = pytest.mark.rehearse_all

ELSEWHERE = "/subscriptions/00000000-0000-4000-8000-00000000000f/resourceGroups/theirs"
ACCOUNTS = "Microsoft.Storage/storageAccounts"
ACCOUNT = re.compile(rf"/subscriptions/[^\"]+/{ACCOUNTS}/[a-z0-9]+")
ENDPOINT = "hvd-dev-pe-default-blob"
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


def test_the_first_up_waits_for_its_roles(tmp_path, monkeypatch):
    check, refused = Roles.check_contributor, threading.Event()

    def refuses_once(self, principal, resource):
        if not refused.is_set():
            refused.set()
            check(self, principal, resource)

    monkeypatch.setattr(Roles, "check_contributor", refuses_once)
    with cloud_in(tmp_path, account_seconds=0.1, role_seconds=3600.0) as cloud:
        said = cloud.jobs(*UP).words
        assert REFUSED in said
        assert "Workspace workspace: roles assigned by this deployment have no effect yet" in said
        assert is_complete(cloud)


def test_an_endpoint_that_lost_a_race_is_finished_by_the_same_command(tmp_path, monkeypatch):
    reserve, begun, refused = AccountOperations._reserved, threading.Event(), threading.Event()
    races, account_of_race = [], set()

    @contextmanager
    def held(self, accounts):
        """An operation of another user, which ends when that of the deployment was refused."""
        with reserve(self, accounts):
            theirs = accounts == account_of_race and not begun.is_set()
            if theirs:
                begun.set()
            yield
            assert not theirs or refused.wait(SECONDS)

    monkeypatch.setattr(AccountOperations, "_reserved", held)
    with cloud_in(tmp_path, account_seconds=0.1) as cloud:
        somebody, passes = Client(cloud.azure), cloud.azure.faults.respond

        def races_once(request, service):
            if ENDPOINT not in request.path or request.method != "PUT" or races:
                return passes(request, service)
            (account,) = ACCOUNT.findall(request.body.decode())
            account_of_race.add(account.lower())
            other = f"{account}/managementPolicies/theirs"
            races.append(threading.Thread(target=somebody.put, args=(other, {})))
            races[0].start()
            assert begun.wait(SECONDS)
            try:
                return passes(request, service)
            finally:
                refused.set()

        monkeypatch.setattr(cloud.azure.faults, "respond", races_once)
        command = cloud.jobs(*UP)
        races[0].join()
        assert "PrivateEndpoint default-blob: another operation on it" in command.words
        assert [one.path.rpartition("/")[2] for one in conflicts(cloud)] == [ENDPOINT]
        assert is_complete(cloud)


def test_an_up_stops_at_a_provider_that_is_not_registered_and_continues_afterwards(tmp_path):
    with cloud_in(tmp_path) as cloud:
        cloud.azure.admin.unregister("Microsoft.MachineLearningServices")
        said = cloud.jobs(*UP, status=1).words
        assert "Microsoft.MachineLearningServices has registrationState 'NotRegistered'" in said
        assert "az provider register" in said
        assert "nothing was changed" in said
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
        assert f"{name}: the name is taken outside of the stack" in said
        assert "nothing was changed" in said
        assert not [one for one in cloud.changes() if SUBSCRIPTION in one]
        cloud.azure.resources.discard(theirs)
        cloud.jobs(*UP)
        assert is_complete(cloud)
