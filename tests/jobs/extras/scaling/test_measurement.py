"""A measurement of clusters: its points, their jobs, and the reading of a job."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from jobs.errors import SpecError
from jobs.extras.scaling.command import ScalingOptions, make_tasks
from jobs.extras.scaling.measurement import (
    benchmark_config,
    due,
    read_point,
    run_key,
    steps_of_repeat,
)
from jobs.options import DataOptions, JobOptions
from jobs.spec import kinds
from jobs.spec.run_key import RunAttempt, key_problems
from jobs.throughput import SYNTHETIC
from tests.jobs.extras.estimate.support import ALL
from tests.jobs.support.platform import SOFTWARE, platform
from tests.jobs.support.samples import TRAINING

STACK = platform(max_nodes=4, dedicated=True)
SEEN = {
    "gpus": ["NVIDIA V100"] * 16,
    "nccl_infiniband": True,
    "driver": "535",
    "operations": "NCCL",
}


def asked(nodes=(2, 1), series=(), data=None, prices=ALL):
    """Tasks of half an hour and three attempts for each."""
    options = ScalingOptions(nodes=nodes, series=series, data=data)
    return make_tasks(options, STACK, TRAINING, prices)


ONE, TWO = asked()


def events(*rates, steps=10, ranks=16, environment=SEEN, at=0):
    """The lines of a run that measures: a warm-up, and a line for each repeat."""
    start = {"event": "start", "step": at, "ranks": ranks, "environment": environment}
    lines = [
        {"event": "train", "step": at + steps * number, "images_per_second": rate,
         "images_per_second_per_rank": rate / ranks, "data_wait_percent": 0.5}
        for number, rate in enumerate((1.0, *rates), 1)
    ]  # fmt: skip
    return [start, *lines]


def test_the_points_of_a_cluster_ascend_and_each_is_measured_with_all_data():
    found = asked((4, 1, 2, 2), ("gpu", "cpu"), "imagenet:3")
    assert [(one.series, one.nodes, one.wanted.data) for one in found[:4]] == [
        ("gpu", 1, SYNTHETIC), ("gpu", 1, "imagenet:3"),
        ("gpu", 2, SYNTHETIC), ("gpu", 2, "imagenet:3"),
    ]  # fmt: skip
    assert {one.series: one.wanted.ranks for one in found} == {"gpu": 32, "cpu": 8}


def test_a_cluster_that_is_too_small_or_has_another_role_is_refused():
    with pytest.raises(ConfigError, match="--nodes: 3, but gpu_dedicated has at most 2"):
        asked((3,), ("gpu_dedicated",))
    with pytest.raises(ConfigError, match="has another role, prepare"):
        asked((1,), ("preparation",))
    with pytest.raises(SpecError, match="no cluster nothing"):
        asked((1,), ("nothing",))


def test_points_without_a_usable_measurement_are_due():
    good, bad = replace(ONE.wanted, rates=(5.0,)), replace(TWO.wanted, problem="no InfiniBand")
    assert due([ONE, TWO], []) == [ONE, TWO]
    assert due([ONE, TWO], [good, bad]) == [TWO]
    assert due([ONE], [replace(good, image_size=160)]) == [ONE]


@given(
    st.one_of(st.none(), st.floats(1, 1e6)), st.integers(1, 100_000), st.floats(1, 600),
    st.integers(1, 9),
)  # fmt: skip
def test_the_repeats_take_at_least_the_seconds_that_were_asked_for(rate, batch, seconds, repeat):
    steps = steps_of_repeat(rate, batch, seconds, repeat)
    assert steps >= 5
    if rate is not None:
        assert steps * repeat * batch / rate >= seconds * 0.999


def test_a_job_warms_up_measures_and_does_nothing_else():
    config = benchmark_config(TRAINING, 100, 3, SYNTHETIC)
    assert (config.max_steps, config.log.every_steps) == (400, 100)
    assert (config.data.source, config.data.dir) == ("synthetic", None)
    assert (config.export, config.log.report, config.checkpoint.every_minutes) == (False, False, 0)
    assert (config.batch_size, config.model, config.compute) == (
        TRAINING.batch_size, TRAINING.model, TRAINING.compute,
    )  # fmt: skip


@pytest.mark.parametrize("data", [SYNTHETIC, "imagenet:3"])
def test_the_job_of_a_point_can_be_built(data):
    config = benchmark_config(TRAINING, 100, 3, data)
    options = JobOptions(data=DataOptions(asset=None if data == SYNTHETIC else data))
    spec = kinds.train(STACK, config, options, RunAttempt("sweep"), SOFTWARE, "benchmark")
    assert ("data" in spec.inputs) == (data != SYNTHETIC)
    assert "--max-steps 400" in spec.command


def test_a_run_keeps_its_key_until_its_point_was_noted_as_not_usable():
    key = run_key("sweep", TWO, TRAINING, [])
    assert key.startswith("sweep-gpu-2-")
    assert key_problems(key) == []
    assert run_key("sweep", TWO, TRAINING, [replace(ONE.wanted, problem="x")]) == key
    assert run_key("sweep", TWO, TRAINING, [replace(TWO.wanted, problem="x")]) != key
    assert run_key("sweep", TWO, replace(TRAINING, batch_size=64), []) != key


def test_the_rates_are_those_of_the_repeats_without_the_warm_up():
    point = read_point(TWO, events(100.0, 102.0, 101.0), {"image": "trainer:1"}, "2026-11-23")
    assert point.rates == (100.0, 102.0, 101.0)
    assert (point.network, point.problem, point.ranks) == ("InfiniBand", None, 16)
    known = point.environment
    assert known["image"] == "trainer:1"
    assert known["gpus"] == "16 x NVIDIA V100"
    assert known["images/s of a rank"] == "6.25, 6.375, 6.3125"


def test_steps_after_a_restart_warm_up_too():
    lines = [*events(100.0), *events(103.0, at=20)]
    assert read_point(TWO, lines, {}, "").rates == (100.0, 103.0)
    assert read_point(TWO, lines, {}, "").environment["starts"] == "2"


@pytest.mark.parametrize(
    ("changes", "ranks", "words"),
    [
        ({"nccl_infiniband": False, "nccl_transport": "NCCL 2.2: no InfiniBand but Socket"}, 16,
         "not InfiniBand, which Standard_ND40rs_v2 has: NCCL 2.2: no InfiniBand but Socket"),
        ({"nccl_infiniband": None, "operations": "Gloo"}, 16, "has: Gloo"),
        ({"nccl_infiniband": None, "operations": None}, 16, "said nothing of it"),
        ({"gpus": ["NVIDIA V100"] * 15}, 16, "the ranks saw 15 of 16 GPUs"),
        ({}, 2, "2 ranks instead of 16"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_vm_size_is_marked_and_not_used(changes, ranks, words):
    lines = events(100.0, ranks=ranks, environment={**SEEN, **changes})
    point = read_point(TWO, lines, {}, "")
    assert words in point.problem
    assert point.rates == (100.0,)
    assert not point.usable
    used = read_point(TWO, lines, {}, "", even_if_poor=True)
    assert used.usable
    assert words in used.environment["used although"]


def test_one_node_needs_no_network():
    lines = events(50.0, ranks=8, environment={"gpus": ["NVIDIA V100"] * 8})
    point = read_point(ONE, lines, {}, "")
    assert (point.problem, point.network) == (None, None)


def test_a_job_without_a_timed_step_is_no_measurement():
    assert read_point(TWO, [], {}, "").problem == "the job ended without a timed step"
    assert not read_point(TWO, events(), {}, "", even_if_poor=True).usable
