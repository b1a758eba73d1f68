"""States in words, and why a job may still be queued."""

from jobs.following import job_states
from jobs.following.job_states import Nodes, hint_due, queue_hints, read_nodes, restarted, words


def nodes(**changes):
    return Nodes(**{"cluster": "gpu", "size": "Standard_ND40rs_v2", "priority": "LowPriority",
                    "allocated": 0, "target": 4, "most": 4, **changes})  # fmt: skip


def test_words_name_the_nodes_and_the_cluster():
    assert words("Queued", 1, "gpu") == "queued, waits for 1 node of gpu"
    assert words("Running", 4, "gpu") == "runs on 4 nodes of gpu"
    assert words("SomethingNew", 4, "gpu") == "SomethingNew"


def test_only_a_way_back_from_running_is_a_restart():
    assert restarted("Running", "Queued")
    assert restarted("Running", "Preparing")
    assert not restarted("Queued", "Preparing")
    assert not restarted("Running", "Finalizing")
    assert not restarted("Running", "NotResponding")


def test_hints_come_after_minutes_and_then_ever_so_often():
    assert not hint_due(299, 0)
    assert hint_due(300, 0)
    assert not hint_due(301, 1)
    assert hint_due(7200, 2)
    assert not hint_due(14_399, 3)
    assert hint_due(14_400, 3)


def test_nodes_are_read_from_azures_answer():
    found = read_nodes(
        {
            "name": "gpu",
            "properties": {
                "properties": {
                    "vmSize": "Standard_ND40rs_v2",
                    "vmPriority": "LowPriority",
                    "scaleSettings": {"maxNodeCount": 8},
                    "currentNodeCount": 3,
                    "targetNodeCount": 4,
                    "nodeStateCounts": {"runningNodeCount": 2, "idleNodeCount": 1},
                    "allocationState": "Resizing",
                    "allocationStateTransitionTime": "2026-11-22T04:00:00Z",
                    "errors": [{"error": {"code": "Quota", "message": "no cores"}}],
                }
            },
        }
    )
    assert (found.allocated, found.target, found.most) == (3, 4, 8)
    assert (found.running, found.idle, found.steady) == (2, 1, False)
    assert found.errors == ("no cores",)


def test_a_cluster_of_no_nodes_yet_is_read():
    assert read_nodes({"name": "gpu", "properties": {}}).allocated == 0


def test_other_jobs_are_named_as_the_reason_when_they_hold_the_nodes():
    text = "\n".join(queue_hints(2, nodes(allocated=4, running=3), []))
    assert "1 of 2 nodes are left beside other jobs" in text
    assert "a region may have none" not in text


def test_a_region_without_nodes_is_the_reason_when_nothing_else_is():
    text = "\n".join(queue_hints(2, nodes(), []))
    assert "a region may have none left for hours, of low priority before all" in text


def test_quota_and_errors_of_the_cluster_come_before_a_guess():
    text = "\n".join(queue_hints(2, nodes(errors=("no cores",)), ["too few"]))
    assert "could not grow: no cores" in text
    assert "quota: too few" in text
    assert "a region may have none" not in text


def test_all_states_before_the_program_have_words():
    for status in job_states.WAITING:
        assert words(status, 1, "gpu") != status
