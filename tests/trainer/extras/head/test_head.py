"""A last layer that is divided over ranks trains, evaluates and is saved as the undivided one."""

import csv
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tf_keras as keras

from common.errors import ConfigError
from tests.trainer.extras.head import scenarios as head_scenarios
from tests.trainer.extras.head.scenarios import dense_network
from tests.trainer.support import scenarios
from tests.trainer.support.command import TINY, final_state, metrics, result
from tests.trainer.support.world import run_world
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import Tensors
from trainer.config import DataConfig, ModelConfig, TrainConfig
from trainer.data.builtin.writer import write_embedded
from trainer.distributed.communicator import Alone
from trainer.errors import CheckpointError
from trainer.extras.head.last_layer import DividedHead
from trainer.extras.head.leaf import HeadOptions
from trainer.model.build import build_model
from trainer.model.initial_weights import load_initial_weights
from trainer.model.randomness import is_random
from trainer.training.plan import make_plan
from trainer.training.setup import set_up

STEPS, BATCH = 20, 24
"""Steps of most runs, and their global batch."""

KINDS: dict[str, dict[str, Any]] = {
    "momentum": {},
    "lars": {"optimizer": {"kind": "lars", "nesterov": False, "trust": 0.1}},
    "adamw": {"optimizer": {"kind": "adamw", "nesterov": False, "learning_rate": 0.05}},
    "accumulation": {"optimizer": {"accumulation": 2, "label_smoothing": 0.0}},
    "frozen-body": {"model": {"frozen": ("conv",)}},
    "mixed": {"data": {"mixup": 0.4, "cutmix": 1.0}},
}
"""Options of runs that must be like undivided ones."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits, in which the runs of this module lie."""
    path = tmp_path_factory.mktemp("head")
    write_embedded("digits", str(path / "data" / "digits"))
    return path


def train(
    folder: Path, name: str, ranks: int, head_groups: int, steps: int = STEPS, **changes: Any
) -> list[dict[str, Any]]:
    options = {
        **changes,
        "": {"batch_size": BATCH // ranks, "max_steps": steps, **changes.get("", {})},
        "head": {"groups": head_groups},
    }
    return run_world(head_scenarios.train_run, ranks, str(folder), name, options)


def saved(folder: Path, name: str) -> Tensors:
    found = CheckpointFolder(folder / "runs" / name / "checkpoints").newest()
    assert found is not None
    return found.load()


@pytest.fixture(scope="module")
def trained(folder: Path) -> Any:
    """Return the name of a run, and its variables by rank; it is trained when it is asked for."""
    found: dict[str, list[dict[str, Any]]] = {}

    def run(kind: str, ranks: int = 1, head_groups: int = 1) -> tuple[str, list[Tensors]]:
        name = f"{kind}-{ranks}-{head_groups}"
        if name not in found:
            found[name] = train(folder, name, ranks, head_groups, **KINDS[kind])
        return name, [one["variables"] for one in found[name]]

    return run


def assert_close(found: Tensors, wanted: Tensors, tolerance: float = 1e-5) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ranks", "head_groups"),
    [
        pytest.param("momentum", 4, 2, marks=pytest.mark.long),
        pytest.param("lars", 4, 2, marks=pytest.mark.long),
        ("adamw", 2, 2),
        pytest.param("accumulation", 4, 2, marks=pytest.mark.long),
        pytest.param("frozen-body", 4, 2, marks=pytest.mark.long),
    ],
)
def test_real_steps_equal_those_of_the_undivided_network(folder, trained, kind, ranks, head_groups):
    name, found = trained(kind, ranks, head_groups)
    wanted = saved(folder, trained(kind)[0])
    assert_close(saved(folder, name), wanted)
    # It has learnt something, or all runs would be alike.
    start = head_scenarios.plain(ModelConfig(image_size=8), 10).get_layer("logits").kernel.numpy()
    assert np.abs(wanted["model/logits/kernel"] - start).max() > 0.02
    for rank, variables in enumerate(found):
        for variable, value in variables.items():
            divided = head_groups > 1 and "logits" in variable
            holder = found[rank % head_groups if divided else 0]
            assert value.tobytes() == holder[variable].tobytes(), variable
            whole = wanted[variable].size
            assert value.size == (whole // head_groups if divided else whole)


@pytest.mark.long
def test_mixed_images_have_the_losses_of_the_undivided_network(folder, trained):
    divided, whole = (saved(folder, trained("mixed", 2, groups)[0]) for groups in (2, 1))
    assert_close(divided, whole)
    plain = saved(folder, trained("momentum")[0])
    assert np.abs(plain["model/logits/kernel"] - whole["model/logits/kernel"]).max() > 0.02


@pytest.mark.long
def test_an_evaluation_equals_that_of_the_undivided_network(folder, trained):
    whole, divided = (
        folder / "runs" / trained("momentum", *world)[0] for world in ((1, 1), (4, 2))
    )
    found, wanted = result(divided), result(whole)
    assert (found["top1"], found["top5"], found["examples"]) == (
        wanted["top1"], wanted["top5"], 360,
    )  # fmt: skip
    lines = [list(csv.DictReader((run / "predictions.csv").open())) for run in (divided, whole)]
    assert len(lines[0]) == len(lines[1]) == 360
    for one, other in zip(*lines, strict=True):
        for column, value in other.items():
            if "probability" in column:
                assert float(one[column]) == pytest.approx(float(value), abs=1e-4)
            else:
                assert one[column] == value, column
    losses = [metrics(run, "evaluation")[-1]["validation_loss"] for run in (divided, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    # In one process, which puts the parts together.
    (alone,) = run_world(head_scenarios.evaluate_saved, 1, str(divided))
    assert (alone["top1"], alone["top5"]) == (wanted["top1"], wanted["top5"])
    assert alone["loss"] == pytest.approx(losses[0], abs=1e-6)


@pytest.mark.long
def test_ranks_with_uneven_shares_evaluate_as_one():
    counts = [[4, 4, 3], [4, 0, 0], [0, 0, 0], [4, 4, 1]]
    (wanted,) = run_world(head_scenarios.evaluate_unevenly, 1, 0, counts)
    found = run_world(head_scenarios.evaluate_unevenly, 4, 2, counts)
    assert {one["result"]["examples"] for one in found} == {sum(map(sum, counts))}
    baseline = wanted["result"].pop("baseline")
    for one in found:
        assert one["result"].pop("baseline") == baseline
        assert one["result"] == pytest.approx(wanted["result"], abs=1e-6)
    for name, values in wanted["columns"].items():
        joined = np.concatenate([one["columns"][name] for one in found])
        np.testing.assert_allclose(joined, values, rtol=1e-5, err_msg=name)


def cases() -> list[dict[str, Any]]:
    """Examples for two, four or six ranks, whose logits include equal ones."""
    noise = np.random.default_rng(5)

    def case(classes: int, labels: Any, **changes: Any) -> dict[str, Any]:
        return {
            # Whole numbers, so that equal columns give equal logits.
            "kernel": noise.integers(-2, 3, [7, classes]).astype(np.float32),
            "bias": noise.integers(-2, 3, [classes]).astype(np.float32),
            "inputs": noise.integers(-2, 3, [12, 7]).astype(np.float32),
            "labels": np.broadcast_to(labels, [12]).astype(np.int32).copy(),
            "weights": np.where(np.arange(12) % 5 == 4, 0.0, 1.5).astype(np.float32),
            "smoothing": 0.1,
            **changes,
        }

    everywhere = noise.integers(0, 12, [12])
    tied = np.repeat(noise.integers(-2, 3, [7, 3]), 4, 1).astype(np.float32)
    large = 300.0 * noise.normal(size=[7, 12]).astype(np.float32)
    return [
        case(12, everywhere),
        case(12, everywhere, smoothing=0.0),
        case(12, everywhere, bias=None),
        case(12, everywhere, kernel=tied, bias=np.zeros([12], np.float32)),
        case(12, everywhere, kernel=np.zeros([7, 12], np.float32)),
        case(12, everywhere, kernel=large),
        case(12, np.arange(12) % 2),
        case(12, 11),
        case(12, everywhere, weights=np.zeros([12], np.float32)),
        case(6, everywhere % 6),
    ]


@pytest.mark.long
@pytest.mark.parametrize(("ranks", "head_groups"), [(4, 2), (6, 3)])
def test_losses_gradients_and_predictions_equal_the_undivided_ones(ranks, head_groups):
    found = run_world(head_scenarios.losses_and_predictions, ranks, head_groups, cases())
    for number, (wanted, of_ranks) in enumerate(
        zip(
            head_scenarios.losses_and_predictions(0, cases()), zip(*found, strict=True), strict=True
        )
    ):
        what = f"case {number}"
        close = {"rtol": 2e-5, "atol": 2e-5, "err_msg": what}
        for name in ("losses", "plain", "counts"):
            joined = np.concatenate([one[name] for one in of_ranks])
            np.testing.assert_allclose(joined, wanted[name], **close)
        assert np.array_equal(
            np.concatenate([one["scores"] for one in of_ranks]), wanted["scores"]
        ), what
        for name, values in wanted["columns"].items():
            joined = np.concatenate([one["columns"][name] for one in of_ranks])
            np.testing.assert_allclose(joined, values, **close)
        # The body's is a sum over all ranks, the layer's over the ranks that hold the same part.
        body, *layer = zip(*(one["gradients"] for one in of_ranks), strict=True)
        scale = np.abs(wanted["gradients"][0]).max() + 1.0
        np.testing.assert_allclose(sum(body) / scale, wanted["gradients"][0] / scale, **close)
        for parts, whole in zip(layer, wanted["gradients"][1:], strict=True):
            summed = [sum(parts[part::head_groups]) for part in range(head_groups)]
            np.testing.assert_allclose(np.concatenate(summed, -1), whole, **close)


@pytest.mark.long
def test_a_run_goes_on_with_other_groups_and_undivided(folder, trained):
    def go_on(name: str, *legs: tuple[int, int, int]) -> Tensors:
        for ranks, head_groups, steps in legs:
            train(folder, name, ranks, head_groups, steps)
        return saved(folder, name)

    wanted = saved(folder, trained("momentum")[0])
    assert_close(go_on("wider", (2, 2, 10), (4, 2, STEPS)), wanted)
    assert_close(go_on("whole", (2, 2, 10), (1, 1, STEPS)), wanted)
    assert_close(go_on("there-and-back", (1, 1, 5), (2, 2, 10), (2, 1, 15), (2, 2, STEPS)), wanted)


@pytest.mark.long
def test_a_checkpoint_restores_the_bits_of_every_part(folder):
    straight = train(folder, "straight", 4, 2)
    train(folder, "in-two-legs", 4, 2, 10)
    resumed = train(folder, "in-two-legs", 4, 2)
    for one, other in zip(straight, resumed, strict=True):
        for name, value in one["variables"].items():
            assert value.tobytes() == other["variables"][name].tobytes(), name
    runs = folder / "runs"
    assert final_state(runs / "straight") == final_state(runs / "in-two-legs")


@pytest.mark.long
def test_a_stopped_run_ends_with_the_bits_of_an_undisturbed_one_and_is_exported(workplace):
    def run(name: str, stop_at: Any = None) -> list[tuple[int, str, str]]:
        args = ["train", *TINY, "--name", name, "--max-steps", "20", "--head.groups", "2"]
        args += ["--export", "True", "--compute.steps-per-loop", "3"]
        return run_world(scenarios.run_command, 2, args, str(workplace), True, stop_at)

    assert [status for status, _, _ in run("undisturbed")] == [0, 0]
    stopped = run("stopped", (1, signal.SIGTERM, 7))
    assert [status for status, _, _ in stopped] == [128 + signal.SIGTERM] * 2, stopped
    assert [status for status, _, _ in run("stopped")] == [0, 0]
    runs = workplace / "runs"
    assert final_state(runs / "undisturbed") == final_state(runs / "stopped")
    for name in ("undisturbed", "stopped"):
        assert (runs / name / "export" / "saved_model" / "saved_model.pb").is_file()
        assert result(runs / name)["examples"] == 360


@pytest.mark.long
def test_weights_of_a_file_are_those_of_the_body(folder, trained):
    name, _ = trained("momentum", 4, 2)
    (file,) = (folder / "runs" / name / "checkpoints").glob("*20*/state.safetensors")
    model = {"weights": str(file)}
    still = {"learning_rate": 1e-30, "weight_decay": 0.0, "rate_scaling": "none"}
    first, second = train(folder, "tuned", 2, 2, 1, model=model, optimizer=still)
    assert "initial weights; logits is divided and keeps its own" in first["printed"]
    assert "initial weights" not in second["printed"]
    source, tuned = saved(folder, name), saved(folder, "tuned")
    assert np.array_equal(tuned["model/conv/kernel"], source["model/conv/kernel"])
    start = head_scenarios.plain(ModelConfig(image_size=8), 10).get_layer("logits")
    assert np.array_equal(tuned["model/logits/kernel"], start.kernel.numpy())
    assert np.array_equal(tuned["model/logits/bias"], start.bias.numpy())


@pytest.mark.long
def test_mixed_precision_skips_the_same_steps_as_undivided(folder):
    mixed: dict[str, Any] = {
        "compute": {"precision": "mixed_float16"},
        "optimizer": {"learning_rate": 0.001},
        # So large that gradients of the first steps overflow.
        "test": {"loss_scale": 2.0**30},
    }
    undivided = train(folder, "mixed-undivided", 2, 1, **mixed)
    divided = train(folder, "mixed", 2, 2, **mixed)
    assert_close(saved(folder, "mixed"), saved(folder, "mixed-undivided"), 5e-3)
    scales = {float(one["variables"]["loss_scale"]) for one in (*undivided, *divided)}
    assert len(scales) == 1
    assert 1.0 < min(scales) < 2.0**30


@pytest.mark.long
@pytest.mark.parametrize(
    "precision", ["float32", pytest.param("mixed_float16", marks=pytest.mark.long)]
)
def test_all_ranks_leave_after_the_same_step_if_one_part_is_spoilt(precision):
    found = run_world(head_scenarios.spoil, 4, 2, precision, 3)
    assert [(one["steps"], one["bad_step"]) for one in found] == [(1, 3)] * 4
    assert not any(np.isfinite(one["norm"]) for one in found)


@pytest.mark.long
def test_a_run_rolls_back_every_part(folder):
    spoilt = {"test": {"poisoned": 12}, "checkpoint": {"on_non_finite": "roll-back"}}
    for name, ranks, head_groups in (("back-undivided", 1, 1), ("back", 4, 2)):
        first, *_ = train(folder, name, ranks, head_groups, **spoilt)
        assert "step 13: the loss or a gradient is not finite; rolled back" in first["printed"]
        assert "to the checkpoint of step 10" in first["printed"]
    assert_close(saved(folder, "back"), saved(folder, "back-undivided"))


@pytest.mark.long
def test_groups_exchange_among_their_ranks_only():
    found = run_world(head_scenarios.groups, 4, 2)
    members = {
        "everyone": [[0, 1, 2, 3]] * 4,
        "consecutive": [[0, 1], [0, 1], [2, 3], [2, 3]],
        "same_place": [[0, 2], [1, 3], [0, 2], [1, 3]],
    }
    for name, of_ranks in members.items():
        for rank, ranks in enumerate(of_ranks):
            seen, place = found[rank][name], ranks.index(rank)
            mine = [np.arange(8.0).reshape(4, 2) + 100.0 * one for one in ranks]
            rows = [np.full([one + 1, 2], float(one)) for one in ranks]
            assert seen["place"] == (place, len(ranks))
            assert np.array_equal(seen["sum"][0], sum(mine))
            assert np.array_equal(seen["sum"][1], sum(mine)[0])
            assert np.array_equal(seen["maximum"], -mine[0])
            assert np.array_equal(seen["join"], np.concatenate(rows))
            assert np.array_equal(seen["scatter_sum"], np.split(sum(mine), len(ranks))[place])
            assert np.array_equal(seen["spread"], mine[0])
            assert np.array_equal(
                seen["to_first"], np.concatenate(rows if place == 0 else [rows[0][:0]])
            )
            begin = sum(range(place + 1))
            assert np.array_equal(seen["from_first"], np.arange(begin, begin + place + 1.0))


@pytest.mark.long
def test_the_memory_of_a_hundred_thousand_classes_falls_with_the_ranks_that_share_them():
    features, classes = 16, 100_000
    rest = 2 * 4 * (features * features + features)
    for ranks in (1, 4):
        found = run_world(head_scenarios.bytes_of_a_rank, ranks, classes, features, ranks)
        # Kernel and bias, each with its momentum.
        layer = 2 * 4 * classes * (features + 1)
        assert [one["bytes"] for one in found] == [layer // ranks + rest] * ranks
        assert {tuple(map(tuple, one["losses"])) for one in found} == {
            tuple(map(tuple, found[0]["losses"]))
        }
        assert found[0]["losses"][1][0] < found[0]["losses"][0][0]


def test_groups_that_divide_neither_ranks_nor_classes_are_refused(tmp_path):
    config = TrainConfig(
        data=DataConfig(source="synthetic"),
        model=ModelConfig(image_size=8, classes=10),
        runs_dir=str(tmp_path),
        head=HeadOptions(4),
    )
    with pytest.raises(
        ConfigError, match=r"--head.groups: 4 does not divide the number of classes, 10"
    ):
        set_up(config, 4, "run")
    config = replace(config, model=replace(config.model, classes=12))
    with pytest.raises(
        ConfigError, match=r"--head.groups: 4 does not divide the number of ranks, 6"
    ):
        set_up(config, 6, "run")
    with pytest.raises(
        ConfigError, match=r"--head.groups: 4 does not divide the number of ranks, 1"
    ):
        make_plan(config, 1, 10_000)
    assert set_up(config, 8, "run").plan.ranks == 8


def test_networks_that_end_in_something_else_are_refused():
    inputs = keras.Input((8,))
    shared = keras.layers.Dense(8)
    ends = {
        "ends in 'relu', a ReLU": keras.layers.ReLU(name="relu")(inputs),
        "'out', a Dense with the activation softmax": keras.layers.Dense(
            4, activation="softmax", name="out"
        )(inputs),
        "'out', a Dense in float16": keras.layers.Dense(4, dtype="mixed_float16", name="out")(
            inputs
        ),
        "is not applied once": shared(shared(inputs)),
    }
    for reason, outputs in ends.items():
        with pytest.raises(ConfigError) as caught:
            DividedHead(keras.Model(inputs, outputs), Alone())
        assert reason in str(caught.value)
        assert "--head.groups" in str(caught.value)

    class Subclass(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(ConfigError, match="without declared inputs"):
        DividedHead(Subclass(), Alone())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "EfficientNetB0"])
def test_networks_are_cut_before_their_last_layer(name):
    config = ModelConfig(network=name, depth=18, width=4, stem="3x3", image_size=32)
    model = build_model(config, 6)
    images = np.random.default_rng(0).normal(size=[2, 32, 32, 3]).astype(np.float32)
    wanted = model(images, training=False).numpy()
    before = [v.name for v in model.trainable_variables]
    head = DividedHead(model, Alone())
    found = head.network(images, training=False).numpy() @ head.kernel.numpy() + head.bias.numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert [v.name for v in head.network.trainable_variables] == before
    assert {v.ref() for v in head.network.variables} == {v.ref() for v in model.variables}
    assert is_random(head.network) == is_random(model) == (name == "EfficientNetB0")


def test_a_divided_network_has_the_variables_of_the_undivided_one():
    model = dense_network(np.ones([3, 4], np.float32), np.ones([4], np.float32))
    head = DividedHead(model, Alone())
    assert [v.name for v in head.network.trainable_variables] == [
        v.name for v in model.trainable_variables
    ]
    assert [v.name for v in head.trained] == ["logits/kernel:0", "logits/bias:0"]
    names = {f"model/{name}": v for name, v in zip("abc", model.variables, strict=True)}
    assert not head.state(names).shapes


def test_a_file_of_keras_that_fits_the_whole_last_layer_is_refused_with_another(tmp_path):
    model = dense_network(np.ones([3, 4], np.float32), None)
    file = tmp_path / "all.weights.h5"
    model.save_weights(file)
    head = DividedHead(model, Alone())
    with pytest.raises(CheckpointError, match=r"last layer is whole; give state\.safetensors"):
        load_initial_weights(head.network, file, keep_head=True)
