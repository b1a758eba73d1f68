"""One cluster is deleted, so that the next deployment makes it anew; the rest stays."""

import io
import sys
from dataclasses import replace

import pytest

from common.errors import UserError
from jobs.azure.workspace import connect
from jobs.errors import NotDeployedError
from tests.jobs.support.runs import answer, declare_job
from tests.jobs.support.torn_down import YES


def clusters(stack):
    asked = connect(stack.outputs).manager.items("computes")
    return {one["name"] for one in asked}


def knows_clusters(stack):
    """Put the clusters into Pulumi's state, as after `up`."""
    kind = "azure-native:machinelearningservices:Compute"
    for role in ("cpu", "gpu", "preparation", "build"):
        id_ = f"{stack.live.workspace}/computes/{stack.outputs.clusters[role].name}"
        urn = f"urn:pulumi:dev::ml::{kind}::cluster-{role}"
        stack.resources.append({"urn": urn, "type": kind, "id": id_, "custom": True})
    stack.write()


@pytest.mark.parametrize("given", ["preparation", "name", "NAME"])
def test_one_cluster_is_deleted_and_the_rest_stays(stack, capsys, given):
    knows_clusters(stack)
    before, name = clusters(stack), stack.outputs.clusters["preparation"].name
    called = {"name": name, "NAME": name.upper()}.get(given, given)
    assert stack.tear_down(replace(YES, cluster=called)) == 0
    assert answer(capsys) == {"stack": "dev", "cluster": name, "done": [f"deleted {name}"]}
    assert clusters(stack) == before - {name}
    assert stack.deletions() == [("DELETE", name)]
    assert not (stack.state / "asked").exists() or stack.asked == []
    # Once more, as after an interruption.
    assert stack.tear_down(replace(YES, cluster=called)) == 0
    assert answer(capsys)["done"] == []


def test_a_cluster_with_jobs_is_left_alone_and_they_are_named(stack):
    knows_clusters(stack)
    declare_job(stack.live, "long-r1", tags={}, command="sleep 60")
    (on,) = connect(stack.outputs).manager.items("jobs")
    name = on["properties"]["computeId"].rpartition("/")[2]
    with pytest.raises(UserError, match=r"1 job on it has not ended \(long-r1\), so nothing was"):
        stack.tear_down(replace(YES, cluster=name))
    assert stack.deletions() == []
    other = next(iter(clusters(stack) - {name}))
    assert stack.tear_down(replace(YES, cluster=other)) == 0


def test_a_cluster_that_nobody_would_make_again_is_left_alone(stack):
    with pytest.raises(UserError, match="is not in Pulumi's state of stack dev"):
        stack.tear_down(replace(YES, cluster=stack.outputs.clusters["gpu"].name))
    knows_clusters(stack)
    stack.resources[-1]["protect"] = True
    stack.write()
    name = stack.resources[-1]["id"].rpartition("/")[2]
    with pytest.raises(UserError, match="is protected, so nothing was deleted; `pulumi state unp"):
        stack.tear_down(replace(YES, cluster=name))
    assert stack.deletions() == []


def test_a_cluster_that_is_not_there_is_told_with_those_that_are(stack):
    knows_clusters(stack)
    name = stack.outputs.clusters["gpu"].name
    with pytest.raises(
        UserError, match=rf"'gqu' is not a cluster of .*; it has .*{name} \(gpu\), "
    ):
        stack.tear_down(replace(YES, cluster="gqu"))


def test_the_cluster_that_is_there_is_meant_and_not_that_of_a_failed_up(stack, capsys):
    knows_clusters(stack)
    there = stack.outputs.clusters["gpu"]
    planned = {**stack.outputs.clusters, "gpu": replace(there, name="gpu-new")}
    outputs = replace(stack.outputs, clusters=planned)
    assert stack.tear_down(replace(YES, cluster="gpu"), outputs=outputs) == 0
    assert answer(capsys)["cluster"] == there.name


def test_a_stack_without_outputs_has_no_clusters(stack):
    with pytest.raises(NotDeployedError, match="has no outputs"):
        stack.tear_down(replace(YES, cluster="gpu"), outputs=None, stack="dev")


def test_a_person_types_the_name_of_the_cluster(stack, monkeypatch):
    knows_clusters(stack)
    terminal = io.StringIO("dev\n")
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(UserError, match="not confirmed"):
        stack.tear_down(replace(YES, yes=False, cluster="build"))
    assert stack.deletions() == []
