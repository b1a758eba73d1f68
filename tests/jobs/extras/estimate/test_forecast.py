"""Hours and cost of choices, and their basis."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.prices import RECORDED, NodePrices, Price, read_price_list
from infra.catalog import vm_sizes
from jobs.azure import node_prices
from jobs.extras.estimate.workload import decoding_ms
from tests.jobs.extras.estimate.support import (
    ALL,
    DEDICATED,
    H100,
    H200,
    NDA100,
    NDV2,
    ONE_A100,
    SOURCE,
    SPOT,
    choice,
    forecaster,
    point,
    priced,
    workload,
)
from trainer.presets import parse_train
from trainer.training.plan import make_plan

IMAGENET = 1_281_167
SIZES = st.sampled_from(vm_sizes.deployable(gpu=True))
NODES = st.integers(1, 16)
RECIPE = workload()


@pytest.mark.parametrize("size", [NDV2, ONE_A100, H100], ids=lambda size: size.name)
@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize(
    "program",
    [(), ("--max-steps", "100"), ("--epochs", "45"), ("--batch-size", "128"),
     ("--batch-size", "256", "--optimizer.accumulation", "4")],
)  # fmt: skip
def test_the_steps_are_those_of_the_run_that_is_submitted(size, nodes, program):
    config = parse_train(["--preset", "imagenet-ndv2", *program])
    submitted = make_plan(config, size.gpus * nodes, IMAGENET)
    planned = choice(size, nodes, *program)
    assert planned.steps == submitted.last_step
    assert planned.global_batch == submitted.global_batch
    assert planned.epochs == pytest.approx(submitted.epoch_of(submitted.last_step))


def test_measured_throughput_gives_the_hours_of_just_these_steps():
    planned = choice(NDV2, 4, "--evaluation.every-epochs", "0", points=[point(4, 30_000.0)])
    images = planned.steps * planned.global_batch
    trained = images / planned.images_per_s.middle / 3600
    assert planned.hours.middle - 0.25 == pytest.approx(trained)
    assert planned.images_per_s.middle == pytest.approx(30_000, rel=0.01)
    assert trained == pytest.approx(90 * IMAGENET / 30_000 / 3600, rel=0.01)


def test_a_time_limit_of_the_trainer_ends_the_attempt():
    assert choice(NDV2, 1, "--max-seconds", "1800").hours.high <= 0.5 + 0.25


@pytest.mark.parametrize(
    ("preset", "nodes", "words"),
    [("imagenet-ndv2", 8, "momentum is published up to a global batch of 8,192, not 16,384"
      " (docs/large-batches.md)"),
     ("imagenet-lars-8192", 1, "the preset is for a global batch of 8,192, not 2,048"),
     ("imagenet-lars-8192", 4, None), ("imagenet-ndv2", 4, None)],
)  # fmt: skip
def test_no_batch_is_recommended_that_the_optimizer_is_not_published_for(preset, nodes, words):
    found = choice(NDV2, nodes, preset=preset)
    assert found.cost is not None
    assert (found.advised_against, found.recommendable) == (words, words is None)


@pytest.mark.parametrize("program", [("--batch-size", "8"), ("--batch-size", "2048"),
                                     ("--model.depth", "18"), ("--model.image-size", "64"),
                                     ("--model.network", "EfficientNetB0"),
                                     ("--averaging.every", "4")], ids=" ".join)  # fmt: skip
def test_nothing_is_said_of_what_was_not_measured(program):
    found = choice(NDV2, 1, *program)
    assert (found.basis, found.images_per_s, found.hours, found.cost) == ("?", None, None, None)
    assert "measure it" in found.reason
    assert found.steps
    batch, model = found.global_batch // 8, workload(*program).model
    own = point(1, 500.0, model=model, batch_per_rank=batch)
    size = workload(*program).config.model.image_size
    known = choice(NDV2, 1, *program, points=[replace(own, image_size=size)])
    assert known.basis == "measured"
    assert known.hours is not None


@pytest.mark.parametrize(
    "size", [H100, vm_sizes.find("Standard_NC4as_T4_v3")], ids=lambda s: s.name
)
def test_a_gpu_without_a_row_is_not_guessed_until_its_card_is_measured(size):
    prices = priced("Dedicated", size=size)
    found = choice(size, prices=prices)
    assert (found.basis, found.cost, found.recommendable) == ("?", None, False)
    card = point(1, 500.0, size="this machine", ranks=1, environment={"gpu": size.gpu})
    known = choice(size, prices=prices, points=[card])
    assert (known.basis, known.recommendable) == ("measured", True)


def test_bfloat16_is_not_estimated_on_a_gpu_without_it():
    program = ("--compute.precision", "mixed_bfloat16")
    assert "no unit for bfloat16" in choice(NDV2, 1, *program).reason
    assert choice(H200, 1, *program).basis == "published"


def test_rows_of_the_users_own_card_win_over_published_ones():
    cold = choice(NDV2)
    own = choice(NDV2, points=[point(1, 5000.0)])
    assert (cold.basis, own.basis) == ("published", "measured")
    assert own.images_per_s.middle == pytest.approx(5000, rel=0.01)
    assert own.images_per_s.low <= 5000 <= own.images_per_s.high
    assert own.factor.off < cold.factor.off
    assert choice(NDA100, points=[point(1, 5000.0)]).basis == "published"


def test_large_images_take_the_time_that_decoding_them_takes():
    large = choice(NDV2, images=100_000, gigabytes=600.0, pixels=12.0)
    ms = decoding_ms(workload(images=100_000, gigabytes=600.0, pixels=12.0).data)
    assert large.images_per_s.middle == pytest.approx(40 / 2 / (ms / 1000))
    assert (choice(NDA100).binds, large.binds) == ("GPU", "CPU")


def test_a_price_of_another_region_is_unknown(tmp_path):
    assert node_prices.known("eastus", folder=tmp_path).find(NDV2.name, "Dedicated")
    found = choice(NDV2, prices=node_prices.known("westeurope", folder=tmp_path))
    assert (found.price, found.cost, found.recommendable) == (None, None, False)
    assert found.hours is not None
    assert "the price of Dedicated in westeurope is not known" in found.reason


def test_amounts_of_two_currencies_are_never_ranked(tmp_path):
    euros = {(NDA100.name.lower(), "Dedicated"): Price(25.0, "EUR", "hour", SOURCE)}
    prices = node_prices.known("eastus", euros, tmp_path)
    assert prices.find(NDA100.name, "Dedicated").currency == "EUR"
    assert prices.find(NDV2.name, "Dedicated") is None


def test_spot_costs_its_own_price_up_to_the_pay_as_you_go_price():
    spot = choice(NDV2, 2, priority="LowPriority")
    hours = spot.hours
    low, middle, high = spot.cost.values
    assert (low, middle) == (
        pytest.approx(hours.low * 2 * SPOT),
        pytest.approx(hours.middle * 2 * SPOT),
    )
    assert high == pytest.approx(hours.high * 2 * DEDICATED)
    assert hours.middle > choice(NDV2, 2).hours.middle
    slow = forecaster(start_minutes=60.0).choice(NDV2, 2, "LowPriority")
    assert slow.cost.middle > spot.cost.middle + 0.75 * 2 * SPOT


def test_a_run_that_loses_more_than_it_gains_never_ends_and_is_not_recommended():
    never = forecaster(hours_between_losses=0.3).choice(NDV2, 8, "LowPriority")
    assert never.hours.high == inf
    assert not never.recommendable
    assert never.document()["hours"][2] is None


def test_a_retired_size_is_named_and_never_recommended():
    retired = vm_sizes.find("Standard_NC24s_v3")
    found = choice(retired, 1, "--compute.precision", "float32", "--compute.xla", "False",
                   "--batch-size", "64", prices=priced("Dedicated", size=retired))  # fmt: skip
    assert found.cost is not None
    assert found.advised_against.startswith("Standard_NC24s_v3 is retired since 2025-09-30; use ")
    assert not found.recommendable


@given(SIZES, NODES, st.sampled_from(["Dedicated", "LowPriority"]))
def test_ranges_are_ordered_and_hours_times_nodes_times_price_is_the_cost(size, nodes, priority):
    prices = NodePrices((*ALL.sources, read_price_list(RECORDED).prices))
    found = forecaster(RECIPE, prices=prices).choice(size, nodes, priority)
    for span in (found.images_per_s, found.hours, found.cost):
        assert span is None or list(span.values) == sorted(span.values)
    if found.cost is not None:
        now, most = found.price.amount, prices.highest(size.name, priority).amount
        amounts = zip(found.hours.values, (now, now, most), found.cost.values, strict=True)
        for hours, amount, cost in amounts:
            assert cost == pytest.approx(hours * nodes * amount, abs=0.005)
    assert (found.images_per_s is None) == (found.basis == "?")


@given(st.floats(0.1, 100), st.floats(0.1, 100), NODES)
def test_a_longer_time_between_losses_never_costs_more(one, other, nodes):
    short, long = (
        forecaster(RECIPE, hours_between_losses=hours).choice(NDV2, nodes, "LowPriority")
        for hours in sorted((one, other))
    )
    assert all(a >= b for a, b in zip(short.cost.values, long.cost.values, strict=True))


def test_every_line_of_an_explanation_with_a_figure_from_elsewhere_has_its_source_and_date():
    made = forecaster(points=[point(1, 9500.0, at="2026-11-23T00:00:00Z")])
    for nodes in (1, 4):
        lines = made.grounds(made.choice(NDV2, nodes, "Dedicated"))
        for begin in ("row", "decoding", "price"):
            (line,) = [one for one in lines if one.startswith(begin)]
            assert "2026-11-2" in line
