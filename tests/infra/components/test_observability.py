"""What is logged, told and paid for."""

import re
from dataclasses import replace

import pytest

from infra.alert_rules import alert_rules
from infra.resources import of_kind
from infra.settings import MonitoringSettings
from tests.infra.support.stacks import only, rendered
from tests.infra.support.variants import LOGS, OPTIONS

ALERTS = MonitoringSettings(preempted_nodes=3, idle_minutes=45, failed_jobs=2, quota_percent=80)


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


def test_the_private_link_scope_stays_open_to_what_is_not_in_it():
    resources = rendered("dev", **OPTIONS["monitor private link"])
    modes = only(resources, "monitor:PrivateLinkScope").inputs["accessModeSettings"]
    assert modes == {"ingestionAccessMode": "Open", "queryAccessMode": "Open"}


def test_storage_and_monitor_share_one_blob_zone():
    resources = rendered("dev", **OPTIONS["monitor private link"])
    names = [one.inputs["privateZoneName"] for one in of_kind(resources, "privatedns:PrivateZone")]
    assert names.count("privatelink.blob.core.windows.net") == 1
    assert len(set(names)) == len(names)


def test_zones_and_links_have_no_region():
    zones = [one for one in rendered("dev") if ":privatedns:" in one.type]
    assert zones
    assert {one.inputs["location"] for one in zones} == {"Global"}


def test_alerts_ask_about_this_workspace_alone_and_tell_the_budgets_people():
    resources = rendered("dev")
    [workspace] = of_kind(resources, "machinelearningservices:Workspace")
    people = only(resources, "monitor:ActionGroup")
    rules = of_kind(resources, "monitor:ScheduledQueryRule")
    assert {one.name for one in rules} == {
        "alert-preempted",
        "alert-idle",
        "alert-failed",
        "alert-quota",
        "alert-waiting",
    }
    for rule in rules:
        [condition] = rule.inputs["criteria"]["allOf"]
        assert f'_ResourceId =~ "{workspace.id}"' in condition["query"]
        assert condition["operator"] == "GreaterThanOrEqual"
        assert rule.inputs["actions"]["actionGroups"] == [people.id]


def test_alerts_have_the_thresholds_of_the_settings():
    by_name = {rule.name: rule for rule in alert_rules(ALERTS)}
    assert by_name["preempted"].threshold == 3
    assert "ago(45m)" in by_name["idle"].query
    assert by_name["failed"].threshold == 2
    assert by_name["quota"].threshold == 80
    assert "< ago(60m)" in by_name["waiting"].query


def test_every_end_of_a_run_is_told_to_those_who_ask_for_it():
    names = {rule.name for rule in alert_rules(replace(ALERTS, ended_runs=True))}
    assert names == {rule.name for rule in alert_rules(ALERTS)} | {"ended"}


def test_rules_about_runs_know_their_attempts_by_the_names_of_jobs():
    rules = [rule for rule in alert_rules(replace(ALERTS, ended_runs=True)) if "-r" in rule.query]
    assert {rule.name for rule in rules} == {"waiting", "ended"}
    for rule in rules:
        [expression] = re.findall(r'@"([^"]+)"', rule.query)
        assert re.match(expression, "night-r12").group(1) == "night"
        assert re.match(expression, "AutoML_7f") is None


def test_what_is_measured_is_a_column_of_the_answer():
    for rule in alert_rules(ALERTS):
        for column in (rule.measure_column, rule.dimension):
            assert column is None or column in rule.query


def test_alerts_of_a_taken_log_workspace_ask_that_one():
    for rule in of_kind(rendered("dev", **OPTIONS["their services"]), "monitor:ScheduledQueryRule"):
        assert rule.inputs["scopes"] == [LOGS]


def test_the_budget_tells_what_was_spent_and_what_will_be():
    budget = only(rendered("prod"), "consumption:Budget").inputs
    told = {(one["thresholdType"], one["threshold"]) for one in budget["notifications"].values()}
    assert told == {
        ("Actual", 50),
        ("Actual", 80),
        ("Actual", 100),
        ("Forecasted", 100),
        ("Forecasted", 120),
    }
    assert budget["timePeriod"] == {"startDate": "2026-12-01T00:00:00Z"}
    [group] = of_kind(rendered("prod"), "resources:ResourceGroup")
    assert budget["scope"] == group.id


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
