"""Properties of forecasts, and points that were published."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.prices import RECORDED, NodePrices, read_price_list
from infra.catalog import vm_sizes
from jobs.extras.estimate.rates import MEASURE_TWO
from tests.jobs.extras.estimate.support import (
    ALL,
    DEDICATED,
    NDA100,
    NDV2,
    forecaster,
    point,
    priced,
    workload,
)

SIZES = st.sampled_from(vm_sizes.deployable(gpu=True))
NODES = st.integers(1, 16)
ENDS = ("low", "middle", "high")
PLAIN = ("--compute.precision", "float32", "--compute.xla", "False")
RECIPE = workload()


def ends(span):
    return [getattr(span, end) for end in ENDS]


@given(SIZES, NODES, st.sampled_from(["Dedicated", "LowPriority"]))
def test_ranges_are_ordered_and_hours_times_nodes_times_price_is_the_cost(size, nodes, priority):
    recorded = read_price_list(RECORDED)
    prices = NodePrices((*ALL.sources, recorded.prices))
    choice = forecaster(RECIPE, prices=prices).choice(size, nodes, priority)
    for span in (choice.images_per_s, choice.hours, choice.lost, choice.money):
        assert span is None or ends(span) == sorted(ends(span))
    if choice.money is not None:
        now, most = choice.price.amount, prices.highest(size.name, priority).amount
        for hours, amount, money in zip(
            ends(choice.hours), (now, now, most), ends(choice.money), strict=True
        ):
            assert money == pytest.approx(hours * nodes * amount, abs=0.005)
    assert (choice.images_per_s is None) == (choice.basis == "?")


@given(NODES, st.sampled_from([NDV2, NDA100]))
def test_images_of_a_node_never_rise_with_nodes(nodes, size):
    plan = forecaster(RECIPE)
    fewer, more = (plan.choice(size, count, "Dedicated") for count in (nodes, nodes + 1))
    if more.images_per_s is not None:
        one, other = fewer.images_per_s.middle, more.images_per_s.middle
        assert other / (nodes + 1) <= one / nodes * (1 + 1e-12)


RATES = st.lists(st.floats(100, 1e5), min_size=1, max_size=3)


@given(RATES, RATES, st.integers(3, 16))
def test_predictions_from_measured_points_have_ordered_ranges_and_do_not_rise_either(
    one, two, nodes
):
    plan = forecaster(RECIPE, points=[point(1, *one), point(2, *two)])
    choices = [plan.choice(NDV2, count, "Dedicated") for count in (1, 2, nodes, nodes + 1)]
    for choice in choices:
        assert ends(choice.images_per_s) == sorted(ends(choice.images_per_s))
        assert choice.basis == "measured"
    fewer, more = choices[2:]
    few, many = fewer.images_per_s.middle, more.images_per_s.middle
    assert many / (nodes + 1) <= few / nodes * (1 + 1e-12)


@given(st.floats(0.1, 100), st.floats(0.1, 100), NODES)
def test_a_longer_time_between_losses_never_costs_more(one, other, nodes):
    short, long = (
        forecaster(RECIPE, hours_between_losses=hours).choice(NDV2, nodes, "LowPriority")
        for hours in sorted((one, other))
    )
    if short.money is not None:
        assert all(a >= b for a, b in zip(ends(short.money), ends(long.money), strict=True))


def test_a_training_that_loses_more_than_it_gains_never_ends_and_is_not_recommendable():
    choice = forecaster(RECIPE, hours_between_losses=0.3).choice(NDV2, 8, "LowPriority")
    assert choice.hours.high == inf
    assert not choice.recommendable
    assert choice.document()["hours"][2] is None


def test_half_the_images_take_half_the_hours_but_the_same_start():
    data = replace(RECIPE.data, images=RECIPE.images // 2, gigabytes=RECIPE.data.gigabytes / 2)
    quiet = workload("--evaluation.every-epochs", "0")
    small, start = replace(quiet, data=data), 0.25
    whole = forecaster(quiet).choice(NDV2, 1, "Dedicated").hours.middle - start
    half = forecaster(small).choice(NDV2, 1, "Dedicated").hours.middle - start
    assert half == pytest.approx(whole / 2, rel=1e-3)


@given(st.floats(1, 2000), st.integers(1, 400), st.integers(16, 20_000), SIZES, NODES)
def test_limits_of_the_input_only_lower(gbits, vcpus, disk, size, nodes):
    free = replace(size, vcpus=10**6, network_gbits=None, disk_gib=None)
    limited = replace(size, vcpus=vcpus, network_gbits=gbits, disk_gib=disk)
    bare = forecaster(RECIPE, account_gbits=1e9).choice(free, nodes, "Dedicated")
    bound = forecaster(RECIPE).choice(limited, nodes, "Dedicated")
    if bare.images_per_s is not None:
        pairs = zip(ends(bound.images_per_s), ends(bare.images_per_s), strict=True)
        assert all(one <= other for one, other in pairs)
        assert all(a >= b for a, b in zip(ends(bound.hours), ends(bare.hours), strict=True))


@pytest.mark.parametrize(
    ("changes", "binds"),
    [
        ({"vcpus": 4}, "CPU"),
        ({"disk_gib": 64, "network_gbits": 1}, "disk (NIC)"),
        ({"disk_gib": 64, "network_gbits": 900}, "GPU"),
        ({}, "GPU"),
    ],
)
def test_what_binds_is_named(changes, binds):
    assert forecaster(RECIPE).choice(replace(NDV2, **changes), 1, "Dedicated").binds == binds


def test_an_account_binds_many_nodes_whose_disks_do_not_hold_the_data():
    small = replace(NDV2, disk_gib=64, vcpus=400)
    assert forecaster(RECIPE).choice(small, 8, "Dedicated").binds == "disk (account)"
    assert forecaster(RECIPE).choice(NDV2, 16, "Dedicated").binds == "network"


def test_imagenet_does_not_fit_on_the_disk_of_one_a100():
    for name, fits in (("NC24ads", False), ("NC48ads", False), ("NC96ads", True)):
        size = vm_sizes.find(f"Standard_{name}_A100_v4")
        notes = forecaster(RECIPE).choice(size, 1, "Dedicated").notes
        assert any("do not fit" in note for note in notes) != fits


def test_several_nodes_without_infiniband_are_to_be_measured():
    choice = forecaster(RECIPE).choice(vm_sizes.find("Standard_NC24ads_A100_v4"), 2, "Dedicated")
    assert (choice.images_per_s, choice.reason) == (None, MEASURE_TWO)


@pytest.mark.parametrize(
    ("size", "program", "nodes", "published"),
    [
        ("Standard_ND40rs_v2", (), 1, 9510),
        ("Standard_ND96asr_v4", (), 1, 17400),
        ("Standard_NC24rs_v3", (*PLAIN, "--batch-size", "64"), 1, 979),
        ("Standard_NC24rs_v3", (*PLAIN, "--batch-size", "64"), 1, 1243),
        ("Standard_NC24rs_v3", (*PLAIN, "--batch-size", "64"), 8, 6514),
    ],
)  # fmt: skip
def test_published_points_lie_in_their_ranges(size, program, nodes, published):
    choice = forecaster(workload(*program)).choice(vm_sizes.find(size), nodes, "Dedicated")
    assert choice.images_per_s.low <= published <= choice.images_per_s.high


def test_eight_gpus_in_one_node_are_faster_than_in_two():
    plain = forecaster(workload("--compute.precision", "float32"))
    up = plain.choice(NDV2, 1, "Dedicated")
    out = plain.choice(vm_sizes.find("Standard_NC24rs_v3"), 2, "Dedicated")
    assert up.size.gpus == 2 * out.size.gpus
    assert up.images_per_s.middle > out.images_per_s.middle


def test_spot_costs_its_own_price_up_to_the_pay_as_you_go_price():
    choice = forecaster(RECIPE).choice(NDV2, 2, "LowPriority")
    hours = choice.hours
    low, middle, high = ends(choice.money)
    assert (low, middle) == (pytest.approx(hours.low * 10), pytest.approx(hours.middle * 10))
    assert high == pytest.approx(hours.high * 2 * DEDICATED)
    assert choice.recommendable


def test_without_a_price_of_spot_only_an_upper_bound_of_the_cost_is_known():
    choice = forecaster(RECIPE, prices=priced("Dedicated")).choice(NDV2, 2, "LowPriority")
    assert (choice.price, choice.money, choice.recommendable) == (None, None, False)
    assert choice.money_at_most == pytest.approx(choice.hours.high * 2 * DEDICATED)
    unknown = forecaster(RECIPE, prices=priced()).choice(NDV2, 2, "LowPriority")
    assert unknown.money_at_most is None


def test_a_size_without_a_price_has_no_cost():
    choice = forecaster(RECIPE).choice(NDA100, 1, "Dedicated")
    assert (choice.images_per_s is None, choice.money, choice.recommendable) == (False, None, False)


def test_a_measured_point_stands_for_itself():
    plan = forecaster(RECIPE, points=[point(1, 9000.0, 9500.0, 9100.0)])
    choice = plan.choice(NDV2, 1, "Dedicated")
    assert choice.images_per_s.middle == 9100
    assert choice.images_per_s.low <= 9000
    assert choice.images_per_s.high >= 9500
    assert choice.basis == "measured"


def test_one_measured_node_predicts_more_over_infiniband_with_a_range_of_its_own():
    measured = forecaster(RECIPE, points=[point(1, 9500.0)]).choice(NDV2, 4, "Dedicated")
    cold = forecaster(RECIPE).choice(NDV2, 4, "Dedicated")
    assert measured.basis == "measured"
    assert _width(measured) < _width(cold)


def test_two_measured_points_predict_as_a_ring_does():
    points = [point(1, 9500.0), point(2, 18000.0)]
    choice = forecaster(RECIPE, points=points).choice(NDV2, 4, "Dedicated")
    one, two = 1 / 9500, 2 / 18000
    assert choice.images_per_s.middle == pytest.approx(4 / (one + (two - one) * 1.5))
    less = forecaster(RECIPE, points=points[:1]).choice(NDV2, 4, "Dedicated")
    assert _width(choice) < _width(less)


def test_two_measured_nodes_predict_more_even_without_infiniband():
    size = vm_sizes.find("Standard_NC24ads_A100_v4")
    points = [point(n, rate, size=size.name, ranks=n) for n, rate in ((1, 2300.0), (2, 3900.0))]
    assert forecaster(RECIPE, points=points[:1]).choice(size, 2, "Dedicated").basis == "?"
    assert forecaster(RECIPE, points=points).choice(size, 4, "Dedicated").basis == "measured"


@pytest.mark.parametrize(
    "other",
    [point(1, 1.0, model="ResNet-101"), point(1, 1.0, batch_per_rank=64),
     point(1, 1.0, precision="float32"), point(1, 1.0, size=NDA100.name),
     point(1, 1.0, problem="NCCL used sockets"), point(1), point(1, 1.0, image_size=160),
     point(1, 1.0, accumulation=2), point(1, 1.0, xla=False), point(1, 1.0, data="imagenet:3")],
    ids=["network", "batch", "precision", "size", "problem", "failed", "image size",
         "micro-batches", "compiler", "data"],
)  # fmt: skip
def test_points_of_something_else_are_not_used(other):
    assert forecaster(RECIPE, points=[other]).choice(NDV2, 1, "Dedicated").basis == "published"


def test_every_number_has_a_source_and_every_source_a_date():
    for choice in (
        forecaster(RECIPE).choice(NDV2, 4, "LowPriority"),
        forecaster(RECIPE, points=[point(1, 9500.0, at="2026-11-23")]).choice(NDV2, 4, "Dedicated"),
    ):
        for ground in choice.grounds:
            derived = ground.source in ("the numbers above", "") and ground.formula
            dated = any(f"20{year}" in ground.source for year in range(10, 27))
            assert derived or dated or ground.source.startswith(("assumed", "5th to 95th")), ground


def _width(choice):
    return (choice.images_per_s.high - choice.images_per_s.low) / choice.images_per_s.middle
