"""The choices of nodes of a run: offers, refusals, and the tags of a job about them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from common.errors import ConfigError
from jobs.azure.job_body import first_body, next_body
from jobs.azure.job_records import Details, read_job
from jobs.errors import SpecError
from jobs.extras.elastic.choices import Choices, offer
from jobs.extras.elastic.leaf import ElasticOptions
from jobs.extras.elastic.placement import ElasticMoves
from jobs.leaf import MOVED, PLACED
from jobs.options import JobOptions
from jobs.spec import kinds
from jobs.spec.run_key import RunAttempt
from tests.jobs.support.platform import SOFTWARE, platform
from tests.jobs.support.samples import IMAGENET, TRAINING
from trainer.extras.virtual_ranks.leaf import VirtualRankOptions

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
STACK = platform(max_nodes=5, dedicated=True)
OPTIONS = JobOptions(data=IMAGENET)


def build(key, nodes, config):
    options = replace(OPTIONS, cluster=key, nodes=nodes)
    return kinds.train(STACK, config, options, RunAttempt("r"), SOFTWARE)


def offered(nodes=4, config=TRAINING, **options):
    return offer(ElasticOptions(**options), build("gpu", nodes, config), config, "gpu", build)


def attempt(number, tags, body, *, created=0.0, started=None, ended=None, status="Canceled"):
    """An attempt whose times are hours before now."""
    properties = {**body, "status": status, "tags": {**tags, "run": "r"}}
    at = {
        name: None if hours is None else NOW - timedelta(hours=hours)
        for name, hours in (("created", created), ("started", started), ("ended", ended))
    }
    data = {"createdAt": at["created"].isoformat()}
    job = read_job({"name": f"r-r{number}", "properties": properties, "systemData": data})
    return job, Details(status, at["started"], at["ended"])


def test_without_the_options_a_job_is_as_before():
    spec, others = offered()
    assert others == []
    assert spec == build("gpu", 4, TRAINING)


def test_halves_are_offered_down_to_the_fewest_with_the_same_global_batch():
    spec, others = offered(min_nodes=1)
    assert [one.nodes for one in others] == [2, 1]
    images = [
        int(one.command.partition("--batch-size ")[2].split()[0]) * one.ranks for one in others
    ]
    assert images == [TRAINING.batch_size * spec.ranks] * 2
    choices = Choices.of(spec.tags)
    assert [one.name for one in choices.offers] == ["gpu:4", "gpu:2", "gpu:1"]
    assert Choices.of({"choices": choices.tag}) == choices
    assert spec.tags[PLACED] == "gpu:4, as asked"
    assert spec.command == build("gpu", 4, TRAINING).command


def test_virtual_ranks_keep_their_batch_size_on_any_number_of_nodes():
    plain = replace(TRAINING, compute=replace(TRAINING.compute, xla=False))
    data = replace(plain.data, streams=32)
    config = replace(plain, data=data, virtual_ranks=VirtualRankOptions(32))
    spec, others = offered(config=config, min_nodes=1)
    sizes = {one.batch_size for one in Choices.of(spec.tags).offers}
    assert sizes == {TRAINING.batch_size}
    assert [one.command for one in others] == [spec.command] * 2


def test_further_clusters_are_offered_after_the_own_one():
    spec, others = offered(2, min_nodes=1, clusters=("gpu_dedicated",))
    names = [one.name for one in Choices.of(spec.tags).offers]
    assert names == ["gpu:2", "gpu:1", "gpu_dedicated:2", "gpu_dedicated:1"]
    assert [one.cluster.priority for one in others] == ["LowPriority", "Dedicated", "Dedicated"]
    alone = Choices.of(offered(2, clusters=("gpu,gpu_dedicated",))[0].tags)
    assert [one.name for one in alone.offers] == ["gpu:2", "gpu_dedicated:2"]


@pytest.mark.parametrize(
    ("nodes", "options", "why"),
    [
        (2, {"min_nodes": 3}, "--min-nodes: 3 is more than --nodes 2"),
        (4, {"clusters": ("gpu_dedicated",)}, "--nodes: 4, but cluster"),
        (2, {"clusters": ("preparation",)}, "preparation, 2 nodes"),
        (2, {"clusters": ("none",)}, "has no cluster none"),
    ],
)
def test_what_a_run_could_not_continue_on_is_refused_before_anything_is_rented(nodes, options, why):
    with pytest.raises(SpecError) as told:
        offered(nodes, **options)
    assert why in "\n".join(told.value.problems)


def test_a_global_batch_that_other_ranks_cannot_divide_is_refused():
    with pytest.raises(SpecError) as told:
        offered(5, replace(TRAINING, batch_size=1), min_nodes=2)
    assert "gpu, 2 nodes: its 16 ranks do not divide the global batch of 40" in str(told.value)


def test_a_smaller_cluster_is_asked_for_as_many_nodes_as_it_has():
    spec, _ = offered(4, min_nodes=1, clusters=("gpu_dedicated",))
    names = [one.name for one in Choices.of(spec.tags).offers]
    assert names == ["gpu:4", "gpu:2", "gpu:1", "gpu_dedicated:2", "gpu_dedicated:1"]


def test_tags_that_are_not_ours_are_no_choices():
    for text in ("", "{", "[]", "[[1],[]]", "[[1,2],[[1]]]", '[["a",2],[]]'):
        assert Choices.of({"choices": text}) is None
    assert Choices.of({}) is None
    with pytest.raises(ConfigError, match="is not a choice of the run: gpu:4, gpu:2"):
        Choices.of(offered(min_nodes=2)[0].tags).number("gpu:3")


def test_the_next_attempt_runs_where_the_moves_say_and_tells_why():
    spec, others = offered(min_nodes=1)
    body = first_body(spec, "/workspaces/w", "/codes/c", {})
    first = attempt(1, spec.tags, body, created=0.3, status="Queued")
    moves = ElasticMoves.of(first[0].tags)
    reason = moves.leave([first], NOW)
    assert reason == "down: gpu:4 did not come within 18 min 0 s"
    ended = attempt(1, {**spec.tags, MOVED: reason}, body, created=0.3, ended=0.0)
    place = moves.place([ended], {spec.cluster.name: 3}, NOW)
    assert (place.nodes, place.processes) == (2, 8)
    second = next_body(ended[0], RunAttempt("r", 2), place=place)
    expected = first_body(others[0], "/workspaces/w", "/codes/c", {})
    assert sorted(second["command"].split()) == sorted(expected["command"].split())
    for key in ("computeId", "resources", "distribution", "limits", "identity"):
        assert second[key] == expected[key]
    assert second["tags"][PLACED] == "gpu:2: gpu:4 did not come within 18 min 0 s"
    assert MOVED not in second["tags"]
    # It goes up again, and says so.
    third = attempt(2, second["tags"], second, created=2.5, started=2.1, status="Running")
    assert moves.leave([ended, third], NOW) == "up: gpu:4 is tried after 2 h 6 min on gpu:2"


def test_a_job_that_has_its_nodes_and_pulls_its_image_is_left_alone():
    spec, _ = offered(min_nodes=1)
    body = first_body(spec, "/workspaces/w", "/codes/c", {})
    moves = ElasticMoves.of(spec.tags)
    for status in ("Preparing", "Starting", "Provisioning"):
        assert moves.leave([attempt(1, spec.tags, body, created=9, status=status)], NOW) is None


def test_a_pinned_choice_is_taken_whatever_there_is():
    spec, _ = offered(min_nodes=1)
    body = first_body(spec, "/workspaces/w", "/codes/c", {})
    tags = {**spec.tags, "pinned": "2"}
    running = attempt(1, tags, body, created=1, started=0.5, status="Running")
    moves = ElasticMoves.of(tags)
    assert moves.leave([running], NOW) == "pinned: a user has pinned another choice than gpu:4"
    assert moves.place([running], {spec.cluster.name: 4}, NOW).nodes == 1
    free = attempt(1, {**spec.tags, "pinned": ""}, body, created=1, started=0.5, status="Running")
    assert moves.leave([free], NOW) is None
