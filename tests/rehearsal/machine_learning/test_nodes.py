"""Nodes come and go as jobs need them, without any job."""

from rehearsal.machine_learning.nodes import Nodes, ScaleSettings


def settings(minimum, maximum, idle_seconds=0):
    return ScaleSettings(minimum, maximum, idle_seconds=idle_seconds, allocation_seconds=0)


def states(nodes):
    return sorted(node["nodeState"] for node in nodes.show("c"))


def test_nodes_are_allocated_for_jobs_and_leave_when_they_are_idle():
    nodes, scale = Nodes(), settings(0, 3)
    nodes.scale("c", scale, queued_nodes=2)
    assert states(nodes) == ["preparing", "preparing"]
    assert not nodes.assign("c", "/jobs/one", 2)
    nodes.scale("c", scale, queued_nodes=2)
    assert nodes.assign("c", "/jobs/one", 2)
    nodes.scale("c", scale, queued_nodes=5)
    assert states(nodes) == ["preparing", "running", "running"]
    nodes.scale("c", scale, queued_nodes=0)
    nodes.release("c", "/jobs/one")
    nodes.scale("c", scale, queued_nodes=0)
    assert states(nodes) == ["leaving"] * 3


def test_a_cluster_keeps_its_minimum_and_gets_no_more_than_there_are():
    nodes, scale = Nodes(), settings(1, 3)
    nodes.limit("c", 2)
    nodes.scale("c", scale, queued_nodes=3)
    nodes.scale("c", scale, queued_nodes=3)
    assert states(nodes) == ["idle", "idle"]
    nodes.scale("c", scale, queued_nodes=0)
    assert states(nodes) == ["idle", "leaving"]


def test_announced_nodes_are_gone_once_their_job_has_left_them():
    nodes, scale = Nodes(), settings(0, 2, idle_seconds=60)
    nodes.scale("c", scale, queued_nodes=2)
    nodes.scale("c", scale, queued_nodes=2)
    assert nodes.assign("c", "/jobs/one", 1)
    nodes.condemn("c", "/jobs/one")
    assert states(nodes) == ["idle", "running"]
    nodes.release("c", "/jobs/one")
    assert states(nodes) == ["idle", "preempted"]


def test_preempted_nodes_are_shown_as_such_and_given_to_no_job():
    nodes, scale = Nodes(), settings(0, 2, idle_seconds=60)
    nodes.scale("c", scale, queued_nodes=1)
    nodes.scale("c", scale, queued_nodes=1)
    assert nodes.assign("c", "/jobs/one", 1)
    nodes.preempt("c", "/jobs/one")
    nodes.release("c", "/jobs/one")
    assert states(nodes) == ["preempted"]
    assert not nodes.assign("c", "/jobs/two", 1)
