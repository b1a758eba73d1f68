"""Logs, and how long they are kept."""

import pytest

from infra.resources import of_kind
from tests.infra.support.stacks import only, rendered
from tests.infra.support.variants import OPTIONS


def test_every_service_that_logs_sends_to_the_one_log_workspace():
    resources = rendered("dev")
    logs = only(resources, "operationalinsights:Workspace")
    settings = of_kind(resources, "monitor:DiagnosticSetting")
    assert {one.inputs["workspaceId"] for one in settings} == {logs.id}
    assert {one.name.removeprefix("diagnostics-") for one in settings} == {
        "workspace",
        "vault",
        "registry",
        "default-blob",
        "default-file",
        "data-blob",
        "network",
        "nat-address",
        "nsg-training",
        "nsg-build",
        "nsg-endpoints",
        "logs",
    }


def test_reads_of_training_data_do_not_use_up_the_daily_cap_of_logs():
    for one in of_kind(rendered("dev"), "monitor:DiagnosticSetting"):
        if "/storageAccounts/" in one.inputs["resourceUri"]:
            categories = [log.get("category") for log in one.inputs["logs"]]
            assert categories == ["StorageWrite", "StorageDelete"]


def test_reads_are_logged_on_request():
    resources = rendered("dev", **OPTIONS["read logs and flow logs"])
    kept = [
        [log["category"] for log in one.inputs["logs"]]
        for one in of_kind(resources, "monitor:DiagnosticSetting")
        if "/storageAccounts/" in one.inputs["resourceUri"]
    ]
    assert kept == [["StorageRead", "StorageWrite", "StorageDelete"]] * 3


def test_flow_logs_of_the_network_go_to_an_existing_account_on_request():
    overrides = OPTIONS["read logs and flow logs"]
    resources = rendered("dev", **overrides)
    log = only(resources, "network:FlowLog")
    assert log.inputs["targetResourceId"] == only(resources, "network:VirtualNetwork").id
    assert log.inputs["storageId"] == overrides["network.flow_logs_to"]
    assert log.inputs["enabled"] is True
    watcher = "/resourceGroups/NetworkWatcherRG/providers/Microsoft.Network/networkWatchers/"
    assert f"{watcher}NetworkWatcher_westeurope/flowLogs/" in log.id
    assert not of_kind(rendered("dev"), "network:FlowLog")


@pytest.mark.parametrize(("stack", "cap"), [("dev", 1), ("prod", 5)])
def test_the_log_workspace_has_a_daily_cap_and_no_keys(stack, cap):
    logs = only(rendered(stack), "operationalinsights:Workspace").inputs
    assert logs["workspaceCapping"] == {"dailyQuotaGb": cap}
    assert logs["features"]["disableLocalAuth"] is True


def test_logs_come_in_publicly_only_without_a_private_link():
    for option, access in (("as it is", "Enabled"), ("monitor private link", "Disabled")):
        logs = only(rendered("dev", **OPTIONS[option]), "operationalinsights:Workspace").inputs
        assert logs["publicNetworkAccessForIngestion"] == access


def test_zones_and_links_have_no_region():
    zones = [one for one in rendered("dev") if ":privatedns:" in one.type]
    assert zones
    assert {one.inputs["location"] for one in zones} == {"Global"}


def test_old_results_get_cheaper_and_old_job_logs_go():
    resources = rendered("dev")
    rules = only(resources, "storage:ManagementPolicy").inputs["policy"]["rules"]
    actions = {one["name"]: one["definition"]["actions"]["baseBlob"] for one in rules}
    assert actions["results"] == {"tierToCool": {"daysAfterModificationGreaterThan": 30}}
    assert actions["job-logs"] == {"delete": {"daysAfterModificationGreaterThan": 180}}


def test_deleted_data_can_be_brought_back_in_both_accounts():
    services = of_kind(rendered("prod"), "storage:BlobServiceProperties")
    assert len(services) == 2
    for one in services:
        for what in ("deleteRetentionPolicy", "containerDeleteRetentionPolicy"):
            assert one.inputs[what] == {"enabled": True, "days": 30}
