"""The properties that make a distributed run one run, in real worlds of Horovod ranks."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.trainer.support import disturbed_scenarios, scenarios
from tests.trainer.support.scenarios import same
from tests.trainer.support.world import run_world
from trainer.config import ComputeConfig, ExchangeConfig, OptimizerConfig
from trainer.training import loop

pytestmark = pytest.mark.slow


def test_the_files_of_a_step_are_those_that_the_loop_lists(digits_folder):
    listed = set(re.findall(r"[\w/]+\.py", loop.__doc__)) | {"training/loop.py"}
    assert len(listed) <= 12
    config = scenarios.tiny_config(str(digits_folder))
    for files in run_world(scenarios.files_of_a_step, 2, config):
        assert files == listed


@pytest.mark.parametrize(
    ("ranks", "config"),
    [
        (2, ExchangeConfig()),
        (3, ExchangeConfig(groups=2)),
        (2, ExchangeConfig(groups=4, compression="fp16")),
    ],
)
def test_the_all_reduce_sums_over_ranks_and_everyone_gets_the_same(ranks, config):
    noise = np.random.default_rng(0)
    shapes = [(3, 3, 4), (7,), (100, 20), (1,), (5, 5)]
    arrays = [[noise.normal(size=s).astype(np.float32) for s in shapes] for _ in range(ranks)]
    results = run_world(scenarios.communicate, ranks, config, arrays)
    # Half precision keeps 11 bits of the divided summands.
    tolerance = 4e-3 if config.compression == "fp16" else 1e-6
    for rank, result in enumerate(results):
        for index in range(len(shapes)):
            expected = sum(arrays[r][index].astype(np.float64) for r in range(ranks))
            np.testing.assert_allclose(
                result["gradients"][index], expected, rtol=tolerance, atol=tolerance
            )
        assert same(result["gradients"], results[0]["gradients"])
        assert result["counts"].tolist() == [ranks, sum(range(ranks))]
        assert result["rank"] == (rank, ranks, rank, ranks)
        assert result["broadcast_variable"].tolist() == [0.0] * 3
        assert result["broadcast"] == {"from": 0}
        assert result["gather"] == [["rank", r] for r in range(ranks)]


@pytest.mark.parametrize("kind", ["momentum", pytest.param("lars", marks=pytest.mark.long)])
def test_one_rank_with_a_double_batch_equals_two_ranks(digits_folder, kind):
    # The loop's rate here is small for LARS, which moves kernels only with a larger trust.
    optimizer = OptimizerConfig(
        kind=kind, warmup_epochs=0.5, nesterov=kind == "momentum", trust=0.1
    )
    two = scenarios.tiny_config(str(digits_folder), batch_size=16, optimizer=optimizer)
    one = scenarios.tiny_config(str(digits_folder), batch_size=32, optimizer=optimizer)
    (single,) = run_world(scenarios.take_steps_without_batch_norm, 1, one, 30)
    pair = run_world(scenarios.take_steps_without_batch_norm, 2, two, 30)
    assert single["images"] == pair[0]["images"] == 30 * 32
    assert single["loss"] == pytest.approx(pair[0]["loss"], rel=1e-4)
    for a, b in zip(single["weights"], pair[0]["weights"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_all_state_is_the_same_on_all_ranks_batch_norm_included(digits_folder):
    optimizer = OptimizerConfig(kind="adamw", warmup_epochs=0.5)
    config = scenarios.tiny_config(str(digits_folder), batch_size=16, optimizer=optimizer)
    results = run_world(scenarios.take_steps, 3, config, 12)
    for result in results[1:]:
        for part in ("weights", "moving", "optimizer", "loop"):
            assert same(result[part], results[0][part]), part
    moved = [m for m in results[0]["moving"] if not np.all((m == 0) | (m == 1))]
    assert len(moved) == len(results[0]["moving"])


def test_accumulated_micro_batches_equal_the_whole_batch(digits_folder):
    whole = scenarios.tiny_config(str(digits_folder))
    pieces = scenarios.tiny_config(str(digits_folder), optimizer=OptimizerConfig(
        warmup_epochs=0.5, learning_rate=0.5, nesterov=True, accumulation=4
    ))  # fmt: skip
    (a,) = run_world(scenarios.take_steps_without_batch_norm, 1, whole, 15)
    (b,) = run_world(scenarios.take_steps_without_batch_norm, 1, pieces, 15)
    assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)
    for left, right in zip(a["weights"], b["weights"], strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("compression", "kind"),
    [("none", "adamw"), ("fp16", "lars")],
)
def test_overflow_on_one_rank_skips_the_step_on_all(compression, kind):
    # A weight of 1e4 leaves the loss finite, but not its gradient in float16 at a scale of 2**15.
    fine = [1.0, 1.0]
    weights = [fine, [1.0, 1e4], fine]
    ranks = run_world(
        scenarios.weighted_steps, 2, "mixed_float16", weights, (-1, -1), 2000, compression, kind
    )
    for before, skipped, after in ranks:
        assert (before["skipped"], skipped["skipped"], after["skipped"]) == (0, 1, 0)
        assert same(skipped["state"], before["state"])
        assert skipped["loss_scale"] == before["loss_scale"] / 2
        assert not same(after["state"], before["state"])
        assert after["step"] == 3
    for left, right in zip(*ranks, strict=True):
        assert same(left["state"], right["state"])
        assert left["loss_scale"] == right["loss_scale"]


def test_non_finite_loss_of_one_rank_stops_all_and_is_named():
    ranks = run_world(scenarios.weighted_steps, 2, "float32", [[1.0, 1.0]] * 3, (1, 1))
    for states in ranks:
        assert len(states) == 2
        assert states[-1]["bad_step"] == 1
        assert states[-1]["bad_ranks"] == [1]


def test_a_gradient_that_breaks_one_weight_is_found_before_a_save():
    # In the step itself where a call ends with it, else by the loss of the next.
    (alone,) = run_world(disturbed_scenarios.break_a_gradient, 1, 1)
    assert alone == {"steps": 1, "bad_step": 0, "bad_ranks": []}
    (among_others,) = run_world(disturbed_scenarios.break_a_gradient, 1, 10)
    assert among_others == {"steps": 2, "bad_step": 1, "bad_ranks": [0]}


@pytest.mark.parametrize("what", ["stop", "pause"])
def test_a_request_of_one_rank_ends_the_call_at_the_same_step_on_all(what):
    results = run_world(disturbed_scenarios.leave_in_the_middle, 2, 100_000, 5, 1, what)
    for result in results:
        assert (result["stopped"], result["paused"]) == (what == "stop", what == "pause")
        # A stop stays asked for; after a pause the run continues.
        assert result["after"] == ((1, True, False) if what == "stop" else (3, False, False))
    assert results[0]["steps"] == results[1]["steps"] == results[0]["step"]
    assert 5 < results[0]["steps"] < 100_000
    # The heartbeat moved while the one call ran; whether another rank's did is for its scheduler.
    assert max(results[1]["seen"]) >= 5


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.long), 2])
def test_xla_computes_the_same_steps(digits_folder, ranks):
    plain = scenarios.tiny_config(str(digits_folder))
    compiled = replace(plain, compute=ComputeConfig(xla=True))
    a, *_ = run_world(scenarios.take_steps, ranks, plain, 4)
    b, *others = run_world(scenarios.take_steps, ranks, compiled, 4)
    assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
    for part in ("weights", "moving"):
        for left, right in zip(a[part], b[part], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-2, atol=2e-3)
        assert all(same(other[part], b[part]) for other in others)


def test_the_wait_for_data_includes_images_that_arrive_after_their_targets(digits_folder):
    config = scenarios.tiny_config(str(digits_folder))
    (waits,) = run_world(scenarios.wait_for_images, 1, config, 5, 0.05)
    # Five steps wait for five images of 50 ms each, by either clock.
    assert all(0.25 <= wait < 2.0 for wait in waits)


def test_the_loss_scale_doubles_after_enough_finite_steps():
    ranks = run_world(scenarios.weighted_steps, 2, "mixed_float16", [[1.0, 1.0]] * 5, (-1, -1), 2)
    for states in ranks:
        scales = [state["loss_scale"] / states[0]["loss_scale"] for state in states]
        assert scales == [1, 2, 2, 4, 4]


def test_stop_request_while_python_builds_a_graph_is_not_recorded_in_it():
    (seen,) = run_world(disturbed_scenarios.stop_while_tracing, 1)
    assert seen == {"stopped": True, "assignments_in_the_graph": 0}
