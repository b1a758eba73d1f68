"""Cores that are needed, used and left."""

import pytest

from jobs.azure.clusters import Quota, Size, find_quota, missing, read_sizes

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
    found = missing(Quota("q", used, limit), ND, wanted, allocated, "Dedicated")
    assert (not found) == enough


def test_what_is_missing_says_how_many_nodes_fit():
    (text,) = missing(Quota("q", 0, 100), ND, 4, 0, "LowPriority")
    assert "4 x Standard_ND40rs_v2 need 160 low-priority cores, 100 of 100 are left" in text
    assert "at most 2 nodes fit" in text


def test_no_quota_at_all_is_told():
    assert "has no standardNDSv2Family cores" in missing(None, ND, 1, 0, "Dedicated")[0]


def test_sizes_are_read_from_both_forms_of_the_list():
    one = {"name": "Standard_ND40rs_v2", "family": "standardNDSv2Family", "vCPUs": 40}
    for form in ({"value": [one]}, {"amlCompute": [one]}, [one]):
        assert read_sizes(form)["standard_nd40rs_v2"] == ND
