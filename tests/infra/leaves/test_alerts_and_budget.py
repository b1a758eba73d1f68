"""The alerts, the budget and the monitor's private link."""

import re
from dataclasses import replace

from infra.extras.alerts.alert_rules import alert_rules
from infra.extras.alerts.leaf import AlertSettings
from infra.policies import pack
from infra.resources import of_kind, requirements
from tests.infra.support.production import changed
from tests.infra.support.stacks import key, only, rendered, settings_of
from tests.infra.support.variants import LOGS, OPTIONS

ALERTS = AlertSettings(preempted_nodes=3, idle_minutes=45, failed_jobs=2, quota_percent=80)


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


def test_an_alert_about_another_workspace_is_a_fault():
    stack = rendered("dev")
    [alert] = [one for one in stack if one.name == "alert-failed"]
    criteria = alert.inputs["criteria"]
    [condition] = criteria["allOf"]
    other = condition | {"query": condition["query"].replace("hvd-dev-ml-", "other-ml-")}
    mutated = changed("alert-failed", "criteria", criteria | {"allOf": [other]}, stack)
    said = [one.message for one in pack.check(mutated, settings_of("dev"))]
    assert len(said) == 1
    assert "which is not the stack's workspace" in said[0]


def test_alerts_have_the_thresholds_of_the_settings():
    by_name = {rule.name: rule for rule in alert_rules(ALERTS)}
    assert by_name["preempted"].threshold == 3
    assert "ago(45m)" in by_name["idle"].query
    assert "array_length(Runs) >= 2" in by_name["failed"].query
    assert by_name["quota"].threshold == 80
    assert "< ago(60m)" in by_name["waiting"].query


def test_every_end_of_a_run_is_told_to_those_who_ask_for_it():
    names = {rule.name for rule in alert_rules(replace(ALERTS, ended_runs=True))}
    assert names == {rule.name for rule in alert_rules(ALERTS)} | {"ended"}


def test_an_open_alert_about_a_run_or_cluster_holds_back_no_notice_about_another():
    rules = alert_rules(replace(ALERTS, ended_runs=True))
    assert {rule.name: rule.dimension for rule in rules} == {
        "ended": "RunId",
        "waiting": "Run",
        "failed": "RunId",
        "preempted": "ClusterName",
        "idle": "ClusterName",
        "quota": "ClusterName",
    }
    declared = of_kind(rendered("dev", monitoring__ended_runs=True), "monitor:ScheduledQueryRule")
    for alert in declared:
        [condition] = alert.inputs["criteria"]["allOf"]
        assert [dimension["values"] for dimension in condition["dimensions"]] == [["*"]]


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


def test_the_private_link_scope_stays_open_to_what_is_not_in_it():
    resources = rendered("dev", **OPTIONS["monitor private link"])
    modes = only(resources, "monitor:PrivateLinkScope").inputs["accessModeSettings"]
    assert modes == {"ingestionAccessMode": "Open", "queryAccessMode": "Open"}


def test_members_join_the_private_link_scope_one_after_the_other():
    resources = rendered("dev", **OPTIONS["monitor private link"])
    needed = requirements(resources)
    members = of_kind(resources, "monitor:PrivateLinkScopedResource")
    first, second = (member.key for member in members)
    assert first in needed[second] or second in needed[first]
    assert {first, second} < needed[key("network:PrivateEndpoint", "monitor")]


def test_storage_and_monitor_share_one_blob_zone():
    resources = rendered("dev", **OPTIONS["monitor private link"])
    names = [one.inputs["privateZoneName"] for one in of_kind(resources, "privatedns:PrivateZone")]
    assert names.count("privatelink.blob.core.windows.net") == 1
    assert len(set(names)) == len(names)
