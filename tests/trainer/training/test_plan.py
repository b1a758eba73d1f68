"""The numbers of a run and its learning rate, against closed forms written here."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from common.errors import ConfigError
from trainer.model_config import ModelConfig
from trainer.presets import PRESETS
from trainer.training.plan import Schedule, batch_norm_warning, make_plan
from trainer.training.setup import recipe_warnings

COSINE = Schedule(peak=1.6, warmup_steps=5.0, total_steps=100, kind="cosine")
STEPS = Schedule(
    peak=2.0,
    warmup_steps=4.0,
    total_steps=90,
    kind="step",
    decay_steps=(30.0, 60.0, 80.5),
    decay_factor=0.1,
)
POLYNOMIAL = Schedule(peak=17.0, warmup_steps=10.0, total_steps=109, kind="polynomial", end=0.0001)


def config_of(**changes):
    optimizer = changes.pop("optimizer", {})
    base = replace(PRESETS["synthetic"], max_steps=None, ranks=1)
    return replace(base, **changes, optimizer=replace(base.optimizer, **optimizer))


@st.composite
def schedules(draw):
    total = draw(st.integers(1, 100_000))
    kind = draw(st.sampled_from(["cosine", "step", "polynomial"]))
    peak = draw(st.floats(1e-6, 1e3))
    warmup = draw(st.floats(0, total, exclude_max=True))
    decays = draw(st.lists(st.floats(0, total), max_size=4, unique=True))
    return Schedule(
        peak=peak,
        warmup_steps=warmup,
        total_steps=total,
        kind=kind,
        decay_steps=tuple(sorted(decays)),
        decay_factor=draw(st.floats(0.01, 0.99)),
        end=peak * draw(st.floats(0, 1)),
    )


# 1. The learning rate.


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 1.6 / 5),
        (1, 1.6 * 2 / 5),
        (3, 1.6 * 4 / 5),
        # Half a cosine over the 96 steps from the peak to one after the last, in half-angle form.
        (5, 1.6 * math.cos(math.pi / 192) ** 2),
        (28, 1.6 * (2 + math.sqrt(2)) / 4),
        (52, 1.6 / 2),
        (76, 1.6 * (2 - math.sqrt(2)) / 4),
        (99, 1.6 * math.sin(math.pi / 192) ** 2),
    ],
)
def test_cosine_at_exact_steps(step, rate):
    assert COSINE.learning_rate(step) == pytest.approx(rate, rel=1e-12)


def test_the_warmup_reaches_the_peak_or_is_left_out():
    assert COSINE.learning_rate(4) == 1.6
    first = replace(COSINE, warmup_steps=0.0).learning_rate(0)
    assert first == pytest.approx(1.6 * math.cos(math.pi / 202) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.5),
        (2, 1.5),
        (3, 2.0),
        (29, 2.0),
        (30, 0.2),
        (59, 0.2),
        (60, 0.02),
        (80, 0.02),
        (81, 0.002),
        (89, 0.002),
    ],
)
def test_step_decay_at_its_boundaries(step, rate):
    assert STEPS.learning_rate(step) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 1.7),
        (4, 8.5),
        (9, 17.0),
        # MLPerf's end + (base - end) (1 - t / T)^2 over the 100 steps after the warm-up.
        (10, 0.0001 + 16.9999 * 0.99**2),
        (59, 0.0001 + 16.9999 * 0.25),
        (108, 0.0001 + 16.9999 * 0.01**2),
        (109, 0.0001),
        (500, 0.0001),
    ],
)
def test_polynomial_at_exact_steps(step, rate):
    assert POLYNOMIAL.learning_rate(step) == pytest.approx(rate, rel=1e-9)


@given(schedules())
def test_steps_at_a_small_rate_are_those_after_the_last_large_one(schedule):
    short = replace(schedule, total_steps=200, warmup_steps=schedule.warmup_steps % 150)
    large = [step for step in range(200) if short.learning_rate(step) >= short.peak / 2]
    end = max(large[-1] + 1 if large else 0, math.ceil(short.warmup_steps))
    assert short.steps_at_small_rate == 200 - end


@given(schedules())
def test_the_rate_is_never_zero_at_the_first_and_the_last_step(schedule):
    assert schedule.learning_rate(0) > 0
    assert schedule.learning_rate(schedule.total_steps - 1) > 0


@given(schedules(), st.data())
def test_cosine_never_jumps_by_more_than_its_slopes_allow(schedule, data):
    assume(schedule.total_steps >= 2)
    cosine = replace(schedule, kind="cosine")
    border = int(cosine.warmup_steps)
    near_border = st.integers(max(border - 3, 0), border + 3)
    anywhere = st.integers(0, cosine.total_steps - 2)
    step = min(data.draw(st.one_of(near_border, anywhere)), cosine.total_steps - 2)
    rising = cosine.peak / cosine.warmup_steps if cosine.warmup_steps >= 1 else 0.0
    falling = cosine.peak * math.pi / 2 / (cosine.total_steps + 1 - cosine.warmup_steps)
    jump = abs(cosine.learning_rate(step + 1) - cosine.learning_rate(step))
    assert jump <= max(rising, falling) * (1 + 1e-9) + 1e-12 * cosine.peak


@given(schedules())
def test_the_warmup_ends_where_the_decay_begins(schedule):
    assume(1 <= schedule.warmup_steps < schedule.total_steps - 1)
    cosine = replace(schedule, kind="cosine", warmup_steps=float(int(schedule.warmup_steps)))
    at_border = cosine.learning_rate(int(cosine.warmup_steps) - 1)
    assert at_border == pytest.approx(cosine.peak, rel=1e-12)


@given(schedules())
@settings(max_examples=30)
def test_the_rate_rises_through_the_warmup_and_falls_after_it(schedule):
    short = replace(schedule, total_steps=200, warmup_steps=schedule.warmup_steps % 150)
    rates = [short.learning_rate(step) for step in range(200)]
    peak = math.ceil(short.warmup_steps)
    rise, fall = rates[: max(peak - 1, 0)], rates[peak:]
    assert max(rates) <= schedule.peak * (1 + 1e-12)
    assert rise == sorted(rise)
    assert fall == sorted(fall, reverse=True)


# 2. The plan.


def test_the_peak_is_scaled_by_the_global_batch_unless_it_is_absolute():
    config = config_of(batch_size=64, optimizer={"learning_rate": 0.3, "warmup_epochs": 2.5})
    schedule = make_plan(config, 8, 10_000).schedule
    assert schedule.peak == pytest.approx(0.3 * 512 / 256)
    assert schedule.warmup_steps == pytest.approx(2.5 * 10_000 / 512)
    absolute = {"learning_rate": 17.0, "rate_scaling": "none"}
    for ranks in (1, 8):
        plan = make_plan(config_of(batch_size=64, optimizer=absolute), ranks, 10_000)
        assert plan.schedule.peak == 17.0


def test_an_end_above_the_peak_is_refused_where_it_counts():
    optimizer = {"learning_rate": 0.1, "end_rate": 0.2, "schedule": "polynomial"}
    with pytest.raises(ConfigError, match=r"--optimizer.end-rate: 0.2 is above the peak .* 0.1"):
        make_plan(config_of(batch_size=256, optimizer=optimizer), 1, 10_000)
    make_plan(config_of(batch_size=512, optimizer=optimizer), 1, 10_000)
    cosine = {**optimizer, "schedule": "cosine"}
    make_plan(config_of(batch_size=256, optimizer=cosine), 1, 10_000)


@pytest.mark.parametrize(("ranks", "told"), [(1, "1 rank x 16"), (2, "2 ranks x 16")])
def test_a_batch_that_the_data_set_cannot_fill_is_refused(ranks, told):
    with pytest.raises(ConfigError, match=f"--batch-size: {told} make a global batch of"):
        make_plan(config_of(batch_size=16), ranks, 15)


def test_decays_are_counted_in_steps_of_the_plan():
    decays = {"decay_epochs": (3.0, 6.0), "schedule": "step", "warmup_epochs": 0.0}
    plan = make_plan(config_of(batch_size=25, epochs=8, optimizer=decays), 2, 100)
    rates = [plan.schedule.learning_rate(step) for step in range(plan.total_steps)]
    peak = plan.schedule.peak
    assert rates == pytest.approx([peak] * 6 + [peak * 0.1] * 6 + [peak * 0.01] * 4)


def test_imagenet_takes_the_steps_that_its_images_need():
    plan = make_plan(config_of(batch_size=256, epochs=90), 8, 1_281_167)
    assert plan.global_batch == 2048
    # 90 x 1281167 / 2048 is 56301.2.
    assert plan.total_steps == 56_302


def test_too_few_images_for_one_global_batch_are_refused():
    with pytest.raises(ConfigError, match=r"global batch of 64.* 63 training images"):
        make_plan(config_of(batch_size=16), 4, 63)
    assert make_plan(config_of(batch_size=16, epochs=6), 4, 64).total_steps == 6


def test_max_steps_shortens_the_run_but_not_the_schedule():
    whole = make_plan(config_of(batch_size=16, epochs=10), 2, 1000)
    short = make_plan(config_of(batch_size=16, epochs=10, max_steps=7), 2, 1000)
    assert short.last_step == 7
    assert short.schedule == whole.schedule
    assert short.total_steps == whole.total_steps == whole.last_step
    longer = make_plan(config_of(batch_size=16, epochs=10, max_steps=10**6), 2, 1000)
    assert longer.last_step == whole.total_steps


@st.composite
def plans(draw):
    ranks, batch = draw(st.integers(1, 64)), draw(st.integers(1, 512))
    examples = draw(st.integers(ranks * batch, 10_000_000))
    epochs = draw(st.integers(1, 300))
    config = config_of(batch_size=batch, epochs=epochs, optimizer={"warmup_epochs": 0.0})
    return make_plan(config, ranks, examples)


@given(plans())
def test_the_last_epoch_ends_with_the_run(plan):
    assert plan.epoch_end(plan.epochs) == plan.total_steps == plan.last_step
    ends = [plan.epoch_end(epoch) for epoch in range(plan.epochs + 1)]
    assert ends[0] == 0
    assert all(earlier < later for earlier, later in pairwise(ends))


@given(plans(), st.data())
def test_an_epoch_ends_as_soon_as_its_images_are_seen(plan, data):
    epoch = data.draw(st.integers(1, plan.epochs))
    end = plan.epoch_end(epoch)
    wanted = epoch * plan.examples
    assert end * plan.global_batch >= wanted
    assert (end - 1) * plan.global_batch < wanted


@given(plans(), st.data())
def test_epochs_done_are_images_seen_over_images(plan, data):
    step = data.draw(st.integers(0, plan.total_steps))
    assert plan.epoch_of(step) == pytest.approx(step * plan.global_batch / plan.examples)


# 3. Batch norm.


@pytest.mark.parametrize(
    ("momentum", "small_steps", "lags"),
    [(0.9, 43, True), (0.9, 44, False), (0.5, 6, True), (0.5, 7, False), (0.0, 1, False)],
)
def test_batch_norm_lags_if_over_a_hundredth_of_its_statistics_is_from_large_rates(
    momentum, small_steps, lags
):
    schedule = Schedule(1.0, 0.0, 100, "step", decay_steps=(100.0 - small_steps,))
    assert schedule.steps_at_small_rate == small_steps
    assert (batch_norm_warning(schedule, momentum) is not None) == lags


def test_the_warning_names_a_momentum_that_is_small_enough():
    plan = make_plan(config_of(batch_size=1024, epochs=20), 1, 1437)
    warning = batch_norm_warning(plan.schedule, 0.9)
    assert warning is not None
    assert warning.startswith("--model.batch-norm-momentum: 0.9 keeps 31% of batch norm's")
    used = float(warning.partition("use ")[2].partition(",")[0])
    assert 0.5 < used < 0.9
    assert batch_norm_warning(plan.schedule, used) is None


@pytest.mark.parametrize(("builder", "warned"), [(None, True), ("my.net:build", False)])
def test_an_own_network_which_need_not_take_the_momentum_is_not_warned_of(builder, warned):
    config = config_of(batch_size=1024, epochs=20, model=ModelConfig(builder=builder))
    schedule = make_plan(config, 1, 1437).schedule
    words = " ".join(recipe_warnings(config, 1, schedule))
    assert ("--model.batch-norm-momentum" in words) == warned


def test_a_rate_that_never_falls_leaves_nothing_but_old_statistics():
    warning = batch_norm_warning(Schedule(1.0, 0.0, 100, "step"), 0.9)
    assert warning is not None
    assert warning.startswith("--optimizer.schedule: the learning rate never falls below half its")
    assert "add a decay before --epochs, or lower --model.batch-norm-momentum" in warning
    assert batch_norm_warning(Schedule(1.0, 0.0, 100, "step"), 0.0) is None


def test_the_first_run_and_imagenet_are_long_enough_for_batch_norm():
    for name, ranks, examples in (("digits", 2, 1437), ("imagenet-lars-32768", 128, 1_281_167)):
        config = PRESETS[name]
        plan = make_plan(config, ranks, examples)
        assert batch_norm_warning(plan.schedule, config.model.batch_norm_momentum) is None
