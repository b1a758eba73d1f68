"""The production stack: what it holds does not go by the way."""

import pytest

from tests.rehearsal.scenarios.cloud import cloud_in

pytestmark = pytest.mark.rehearse_all

HELD = {
    "azure-native:keyvault:Vault",
    "azure-native:containerregistry:Registry",
    "azure-native:machinelearningservices:Workspace",
    "azure-native:storage:StorageAccount",
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with cloud_in(tmp_path_factory.mktemp("prod"), "prod") as cloud:
        cloud.jobs("up", "--yes", "True")
        yield cloud


def test_a_protected_stack_is_torn_down_only_after_a_word_for_it(cloud):
    before, known = cloud.resources(), cloud.state()
    protected = [one for one in known if one.get("protect")]
    assert {one["type"] for one in protected} >= HELD
    cloud.azure.admin.forget_requests()

    refused = cloud.jobs("teardown", "--yes", "True", status=1)
    assert f"stack prod: {len(protected)} resources are protected" in refused.err
    assert "pulumi state unprotect --all --stack prod" in refused.err
    assert cloud.changes() == []
    assert cloud.resources() == before
    assert cloud.state() == known

    cloud.pulumi("state", "unprotect", "--all", "--yes")
    ended = cloud.jobs("teardown", "--yes", "True", "--poll-seconds", "0.2", status=1)
    assert cloud.state() == []
    assert cloud.groups == []
    # Nobody can purge this one, which is what it was made for.
    assert "stack prod: 1 leftover:" in ended.out
    assert "deleted vault hvd-prod-kv-" in ended.out
    assert "has purge protection" in ended.out
