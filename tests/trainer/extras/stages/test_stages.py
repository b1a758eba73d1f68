"""Layers on several devices of a rank: the same training as on one."""

import shutil
import signal
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tensorflow")

from tests.trainer.extras.stages import scenarios
from tests.trainer.support.command import TINY, final_state, result
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.world import run_world
from trainer.config import (
    ComputeConfig,
    DataConfig,
    ExchangeConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
)
from trainer.extras.stages.leaf import StagesOptions
from trainer.extras.stages.partition import partition

BUILDERS = "tests.trainer.support.builders"
RESNET = ModelConfig(depth=18, width=8, stem="3x3", image_size=16)
NETWORKS = {
    "resnet": (RESNET, 3),
    "unet": (replace(RESNET, network="unet", image_size=32), 3),
    "dropout": (ModelConfig(builder=f"{BUILDERS}:good", image_size=8), 2),
    "nested": (ModelConfig(builder=f"{BUILDERS}:nested", image_size=8), 3),
    "subclassed": (ModelConfig(builder=f"{BUILDERS}:attention", image_size=8), 3),
    "EfficientNetB0": (ModelConfig(network="EfficientNetB0", image_size=32), 2),
}
SYNTHETIC = DataConfig(source="synthetic")
FREE = {"Const", "Placeholder", "ReadVariableOp", "Identity", "NoOp"}
SHAPES = {"Sub", "Pack", "Slice", "ConcatV2", "Reshape", "Shape"}
"""Kinds of operation that may be on any device: they compute nothing, or only shapes."""


def config(model, stages, data=SYNTHETIC, **changes):
    changes = {"batch_size": 8, "optimizer": OptimizerConfig(accumulation=4), **changes}
    return TrainConfig(
        task="segmentation" if model.network == "unet" else "classification",
        data=data,
        model=model,
        stages=StagesOptions(stages),
        **changes,
    )


def both(model, stages, rewriting=True, **changes):
    """Divided, and on one device."""
    settings = [config(model, number, **changes) for number in (stages, 1)]
    (found,) = run_world(scenarios.gradients, 1, settings, rewriting)
    return found


def assert_close(found, expected, tolerance=1e-6):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(np.abs(b).max(), 1e-6))


# 1. Which layer is where.


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_a_partition_is_contiguous_without_gaps_and_none_is_better(costs, data):
    parts = data.draw(st.integers(1, len(costs)))
    found = partition(costs, parts)
    assert found == sorted(found)
    assert set(found) == set(range(parts))

    def worst(numbers):
        return max(
            sum(cost for cost, number in zip(costs, numbers, strict=True) if number == part)
            for part in range(parts)
        )

    def least(rest, left):
        if left == 1:
            return sum(rest)
        ends = range(1, len(rest) - left + 2)
        return min(max(sum(rest[:end]), least(rest[end:], left - 1)) for end in ends)

    assert worst(found) == least(costs, parts)


def test_layers_are_divided_in_the_order_in_which_they_run():
    (found,) = run_world(scenarios.placement, 1, config(RESNET, 4))
    stages = [stage for _, stage in found]
    assert set(stages) == {0, 1, 2, 3}
    assert found[0][1] == 0
    assert dict(found)["logits/kernel"] == 3
    of_layer = {}
    for name, stage in found:
        of_layer.setdefault(name.rpartition("/")[0], set()).add(stage)
    assert all(len(stages) == 1 for stages in of_layer.values())


@pytest.mark.parametrize(
    ("builder", "stages", "told"),
    [
        ("subclassed", 2, "2 stages, but the network has only 1 layer with weights"),
        ("good", 4, "4 stages, but the network has only 3 layers with weights"),
        ("unequal", 2, "a second build of the network differs from the first: it has dense_2/"),
    ],
)
def test_a_network_that_cannot_be_divided_is_refused(builder, stages, told):
    model = ModelConfig(builder=f"{BUILDERS}:{builder}", image_size=8)
    ((problem,),) = run_world(scenarios.refusal, 1, config(model, stages))
    assert problem.startswith("--stages.count: ")
    assert told in problem


# 2. The same gradients as on one device.


@pytest.mark.parametrize(
    "name",
    [
        "dropout",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("resnet", "unet", "nested", "subclassed", "EfficientNetB0")
        ),
    ],
)
def test_loss_and_gradients_are_those_of_the_undivided_network(name):
    # The batch norms of EfficientNet see 2 values of each channel at the end, and magnify what
    # TensorFlow rounds otherwise when it rewrites another graph.
    divided, whole = both(*NETWORKS[name], rewriting=name != "EfficientNetB0")
    assert divided["names"] == whole["names"]
    assert all(map(np.array_equal, divided["start"], whole["start"]))
    assert_close(divided["sums"], whole["sums"])
    assert_close(divided["gradients"], whole["gradients"])
    assert_close(divided["end"], whole["end"])
    stages = NETWORKS[name][1]
    assert set(divided["variables"]) == {f"CPU:{number}" for number in range(stages)}
    assert set(whole["variables"]) == {"CPU:0"}


@pytest.mark.long
def test_images_are_mixed_alike():
    divided, whole = both(*NETWORKS["dropout"], data=replace(SYNTHETIC, mixup=0.4))
    plain, _ = both(*NETWORKS["dropout"])
    assert_close(divided["sums"], whole["sums"])
    assert_close(divided["gradients"], whole["gradients"])
    assert abs(divided["sums"][0] - plain["sums"][0]) > 1e-3


@pytest.mark.long
def test_float16_with_a_loss_scale_is_divided_as_well():
    model, stages = NETWORKS["dropout"]
    compute = ComputeConfig(precision="mixed_float16")
    divided, whole = both(model, stages, compute=compute)
    assert_close(divided["gradients"], whole["gradients"], 1e-3)
    assert divided["gradient_devices"] == divided["trained"]


@pytest.mark.long
def test_each_operation_runs_on_the_device_of_its_layer():
    divided, _ = both(RESNET, 3)
    assert divided["gradient_devices"] == divided["trained"]
    unplaced = {kind for _, kind, device, _ in divided["operations"] if not device}
    assert unplaced <= FREE | SHAPES
    kinds = Counter((kind, device) for _, kind, device, _ in divided["operations"])
    kernels = Counter(
        device
        for name, device in zip(divided["names"], divided["variables"], strict=True)
        if name.endswith("/kernel") and not name.startswith("logits")
    )
    for kind in ("Conv2D", "Conv2DBackpropFilter"):
        assert {key[1]: n for key, n in kinds.items() if key[0] == kind} == {
            device: 4 * number for device, number in kernels.items()
        }


# 3. Micro-batches in several stages at once.


@pytest.mark.parametrize("stages", [2, 3])
def test_a_micro_batch_waits_for_the_one_that_is_as_many_before_it_as_there_are_stages(stages):
    pieces = 5
    model = NETWORKS["dropout"][0]
    optimizer = OptimizerConfig(accumulation=pieces)
    settings = config(model, stages, batch_size=2 * pieces, optimizer=optimizer)
    ((divided,),) = run_world(scenarios.gradients, 1, [settings])
    inputs = {
        name: [source.removeprefix("^").partition(":")[0] for source in sources]
        for name, _, _, sources in divided["operations"]
    }

    def before(name):
        found, left = set(), [name]
        while left:
            new = set(inputs[left.pop()]) - found
            found |= new
            left += new
        return found

    def by_piece(*kinds, backward):
        names = [
            name
            for name, kind, *_ in divided["operations"]
            if kind in kinds and name.startswith("gradients") == backward
        ]
        each = len(names) // pieces
        assert each
        assert len(names) == each * pieces
        return [names[each * piece : each * (piece + 1)] for piece in range(pieces)]

    begun = by_piece("Conv2D", "MatMul", "StatelessRandomUniformV2", backward=False)
    ended = by_piece("Conv2DBackpropFilter", "FusedBatchNormGradV3", backward=True)
    for piece in range(pieces):
        expected = {name for names in ended[: max(piece - stages + 1, 0)] for name in names}
        for name in begun[piece]:
            assert before(name) & {name for names in ended for name in names} == expected
    # The first stage begins with the second micro-batch while the others have the first.
    device = {name: device for name, _, device, _ in divided["operations"]}
    in_first = [name for name in begun[1] if device[name] == "CPU:0"]
    assert in_first
    for name in in_first:
        assert {device[earlier] for earlier in before(name)} <= {"", "CPU:0"}


# 4. Whole runs.


@pytest.mark.parametrize(
    "kind",
    ["adamw", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("momentum", "lars"))],
)
def test_weights_and_the_state_of_the_optimizer_stay_where_the_layers_are(kind):
    optimizer = OptimizerConfig(kind=kind, accumulation=2)
    model = NETWORKS["dropout"][0]
    divided, whole = (
        run_world(scenarios.take_steps, 1, config(model, stages, optimizer=optimizer), 3)[0]
        for stages in (2, 1)
    )
    assert_close(divided["state"], whole["state"])
    assert divided["loss"] == pytest.approx(whole["loss"], rel=1e-6)
    assert set(divided["variables"]) == {"CPU:0", "CPU:1"}
    copies = len(divided["slots"]) // len(divided["variables"])
    assert divided["slots"] == copies * divided["variables"]


@pytest.mark.long
@pytest.mark.parametrize("compression", ["none", "fp16"])
def test_two_ranks_of_two_stages_train_as_two_ranks_of_one(compression):
    changes = {}
    if compression == "fp16":
        changes["compute"] = ComputeConfig(precision="mixed_float16")
    exchange = ExchangeConfig(compression=compression)
    model = NETWORKS["dropout"][0]
    divided, whole = (
        run_world(scenarios.take_steps, 2, config(model, stages, exchange=exchange, **changes), 3)
        for stages in (2, 1)
    )
    for a, b in zip(divided, whole, strict=True):
        assert_close(a["state"], b["state"], 1e-6 if compression == "none" else 1e-2)
    for a, b in zip(divided[0]["state"], divided[1]["state"], strict=True):
        assert np.array_equal(a, b)


@pytest.mark.long
def test_a_run_with_stages_is_resumed_with_the_same_bits_and_with_other_stages(workplace):
    options = [*TINY, "--epochs", "1", "--optimizer.accumulation", "2"]

    def train(*args, stages="2", status=0, **kind):
        command = ("train", *options, "--stages.count", stages, *args)
        ended = fork_trainer(*command, cwd=workplace, ranks=1, **kind)
        assert ended.statuses == [status], ended.stderr
        return ended

    told = train("--name", "whole")
    assert "the 2 devices of a rank are parts of its CPU" in told.stderr
    train("--name", "parts", status=130, stop_at=(0, signal.SIGINT, 20))
    shutil.copytree(workplace / "runs" / "parts", workplace / "runs" / "other")
    train("--name", "parts")
    changed = train("--name", "other", stages="1")
    assert "stages.count" in changed.stdout
    runs = workplace / "runs"
    whole, other = final_state(runs / "whole"), final_state(runs / "other")
    assert final_state(runs / "parts") == whole
    assert other.keys() == whole.keys()
    assert result(runs / "other")["top1"] == pytest.approx(result(runs / "whole")["top1"], abs=0.05)


@pytest.mark.long
def test_evaluation_and_export_of_a_run_know_nothing_of_its_stages(workplace):
    command = ("train", *TINY, "--name", "run", "--max-steps", "5", "--stages.count", "2")
    ended = fork_trainer(*command, "--export", "True", cwd=workplace, ranks=1)
    assert ended.statuses == [0], ended.stderr
    run = workplace / "runs" / "run"
    assert (run / "export" / "saved_model" / "saved_model.pb").exists()
    again = fork_trainer("evaluate", "--run", "runs/run", cwd=workplace, ranks=1)
    assert again.statuses == [0], again.stderr
    assert f"top-1 {100 * result(run)['top1']:.2f}%" in again.stdout
    assert "--stages.count" not in again.stderr
