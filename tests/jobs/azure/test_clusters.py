"""The state of a cluster in Azure: its nodes, the cores left, and why a job waits."""

import pytest

from jobs.azure.clusters import (
    Quota,
    Size,
    cores_problems,
    explain_queue,
    find_quota,
    problems,
    read_nodes,
    read_sizes,
)
from tests.jobs.support.platform import cluster_nodes, platform

ND = Size("Standard_ND40rs_v2", "standardNDSv2Family", 40)
POOL = {"name": {"value": "TotalLowPriorityCores", "localizedValue": "Total Low-priority Cores"},
        "currentValue": 40, "limit": 100}  # fmt: skip
FAMILY = {"name": {"value": "standardNDSv2Family",
                   "localizedValue": "Standard NDSv2 Family Cluster Dedicated vCPUs"},
          "currentValue": 0, "limit": 80}  # fmt: skip
SHOWN = {"name": {"value": "", "localizedValue": "Standard NDSv2 Family Cluster Dedicated vCPUs"},
         "currentValue": 0, "limit": 80}  # fmt: skip
OTHER = {"name": {"value": "standardDSv2Family", "localizedValue": ""}, "currentValue": 0,
         "limit": 7}  # fmt: skip


def test_low_priority_nodes_share_one_pool_whatever_their_family():
    assert find_quota([OTHER, FAMILY, POOL], "LowPriority", ND.family).limit == 100


@pytest.mark.parametrize("usage", [FAMILY, SHOWN])
def test_dedicated_nodes_count_against_their_family_by_either_of_its_names(usage):
    assert find_quota([OTHER, POOL, usage], "Dedicated", ND.family).limit == 80


def test_a_family_that_is_not_listed_has_no_quota():
    assert find_quota([OTHER, POOL], "Dedicated", ND.family) is None
    assert find_quota([OTHER, POOL], "Dedicated", "") is None


@pytest.mark.parametrize(
    ("used", "limit", "wanted", "allocated", "enough"),
    [
        (0, 80, 2, 0, True),
        (0, 79, 2, 0, False),
        (40, 80, 2, 1, True),  # the cluster's own node counts as used
        (40, 80, 2, 0, False),
        (100, 80, 1, 0, False),
        (0, -1, 99, 0, True),
    ],
)
def test_nodes_fit_if_their_cores_are_left(used, limit, wanted, allocated, enough):
    found = cores_problems(Quota("q", used, limit), ND, wanted, allocated, "Dedicated")
    assert (not found) == enough


def test_what_is_missing_says_how_many_nodes_fit():
    (text,) = cores_problems(Quota("q", 0, 100), ND, 4, 0, "LowPriority")
    assert (
        "4 x Standard_ND40rs_v2 need 160 Spot (low-priority) cores, but 100 of 100 are left" in text
    )
    assert "enough for 2 nodes" in text


def test_no_quota_at_all_is_told():
    assert "has no standardNDSv2Family cores" in cores_problems(None, ND, 1, 0, "Dedicated")[0]


def test_sizes_are_read_from_both_forms_of_the_list():
    one = {"name": "Standard_ND40rs_v2", "family": "standardNDSv2Family", "vCPUs": 40}
    for form in ({"value": [one]}, {"amlCompute": [one]}, [one]):
        assert read_sizes(form)["standard_nd40rs_v2"] == ND


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
    assert (found.allocated, found.target, found.max_nodes) == (3, 4, 8)
    assert (found.running, found.idle, found.steady) == (2, 1, False)
    assert found.errors == ("no cores",)


def test_a_compute_instance_is_a_node_unless_it_is_stopped():
    for state, allocated in (("Running", 1), ("Starting", 1), ("Stopped", 0)):
        own = {"vmSize": "STANDARD_DS3_V2", "errors": [], "state": state}
        properties = {"computeType": "ComputeInstance", "properties": own}
        instance = read_nodes({"name": "ci", "properties": properties})
        assert (instance.allocated, instance.target, instance.state) == (
            allocated,
            allocated,
            state,
        )
        assert instance.priority == "Dedicated"


def test_a_cluster_of_no_nodes_yet_is_read():
    assert read_nodes({"name": "gpu", "properties": {}}).allocated == 0


def test_other_jobs_are_named_as_the_reason_when_they_hold_the_nodes():
    text = "\n".join(explain_queue(2, cluster_nodes(allocated=4, running=3), []))
    assert "other jobs leave 1 of the 2 nodes needed" in text
    assert "a region may have none" not in text


def test_a_region_without_nodes_is_the_reason_when_nothing_else_is():
    text = "\n".join(explain_queue(2, cluster_nodes(), []))
    assert "a region may have none for hours, especially of Spot" in text


def test_quota_and_errors_of_the_cluster_come_before_a_guess():
    text = "\n".join(explain_queue(2, cluster_nodes(errors=("no cores",)), ["too few"]))
    assert "could not grow: no cores" in text
    assert "quota: too few" in text
    assert "a region may have none" not in text


def cluster(state="Succeeded", **changes):
    own = {"vmSize": "STANDARD_ND40RS_V2", "vmPriority": "LowPriority",
           "scaleSettings": {"maxNodeCount": 4}, **changes}  # fmt: skip
    properties = {"provisioningState": state, "properties": own}
    return {"name": "gpu", "properties": properties}


def test_a_cluster_as_the_outputs_say_has_no_problems():
    assert problems(platform().clusters["gpu"], 4, cluster()) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (cluster(vmSize="Standard_NC6"), "has Standard_NC6, not Standard_ND40rs_v2"),
        (cluster(vmPriority="Dedicated"), "is Dedicated, not LowPriority"),
        (cluster(scaleSettings={"maxNodeCount": 3}), "--nodes: 4, but cluster"),
        (cluster("Creating"), "its state is Creating"),
    ],
)  # fmt: skip
def test_a_cluster_that_is_another_than_the_outputs_say_is_told(found, words):
    (problem,) = problems(platform().clusters["gpu"], 4, found)
    assert words in problem


OF = "Microsoft.MachineLearningServices"
DSV2, NDV2 = (f"Standard {series} Family Cluster Dedicated vCPUs" for series in ("DSv2", "NDv2"))
PUBLISHED = [
    # Type, name, used and limit as in the example Usage/list of the REST definitions, except
    # for the limits of NDv2 and of one workspace, which are 0 and 24 there.
    ("totalCores", "Clusters", 7, 100),
    ("dedicatedCores", "Total Cluster Dedicated Regional vCPUs", 14, 24),
    ("vmFamily", "Standard D Family Cluster Dedicated vCPUs", 0, 48),
    ("vmFamily", DSV2, 2, 24),
    ("workspaces", DSV2, 2, 4),
    ("workspaces/computes", DSV2, 2, 24),
    ("vmFamily", "Standard Dv2 Family Cluster Dedicated vCPUs", 0, 24),
    ("vmFamily", "Standard NC Family Cluster Dedicated vCPUs", 12, 24),
    ("workspace", "Standard NC Family Cluster Dedicated vCPUs", 6, 24),
    ("vmFamily", NDV2, 0, 8),
    ("lowPriorityCores", "Total Cluster LowPriority Regional vCPUs", 18, 50),
    ("vmFamily", "Standard NC Family Cluster LowPriority vCPUs", 18, -1),
    ("workspace/computes", "Standard NC Family Cluster LowPriority vCPUs", 6, -1),
]


def published(rows=PUBLISHED):
    return [
        {"type": f"{OF}/{of}/usages", "currentValue": used, "limit": limit, "unit": "Count",
         "name": {"value": name, "localizedValue": name}}
        for of, name, used, limit in rows
    ]  # fmt: skip


@pytest.mark.parametrize("rows", [PUBLISHED, PUBLISHED[::-1]])
@pytest.mark.parametrize(
    ("priority", "family", "found"),
    [
        ("LowPriority", "standardNDSv2Family", ("Total Cluster LowPriority Regional vCPUs", 50)),
        ("Dedicated", "standardNDSv2Family", (NDV2, 8)),
        ("Dedicated", "standardDSv3Family", None),
        # All dedicated nodes of the region leave fewer than the family alone.
        ("Dedicated", "standardDSv2Family", ("Total Cluster Dedicated Regional vCPUs", 24)),
    ],
)
def test_a_quota_is_found_in_azures_published_list_in_any_order(rows, priority, family, found):
    quota = find_quota(published(rows), priority, family)
    assert found == (None if quota is None else (quota.name, quota.limit))


def test_the_share_of_a_workspace_is_not_the_quota():
    rows = [row for row in PUBLISHED if row[0] != "dedicatedCores"]
    for ordered in (rows, rows[::-1]):
        assert find_quota(published(ordered), "Dedicated", "standardDSv2Family").limit == 24
