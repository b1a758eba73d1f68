"""The state of the optimizer divided over ranks: held in real worlds of Horovod ranks."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.support import scenarios
from tests.trainer.support.command import TINY, final_state
from tests.trainer.support.forked import fork_trainer
from tests.trainer.support.scenarios import same
from tests.trainer.support.world import run_world
from trainer.config import OptimizerConfig
from trainer.extras.sharded.leaf import ShardedOptions
from trainer.extras.sharded.strategy import cut, part_size

# 1. The cut.


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 9))
def test_every_element_has_one_rank_and_parts_are_equal_but_for_the_padding(sizes, ranks):
    parts = cut(sizes, ranks)
    elements = [
        (piece.number, element)
        for part in parts
        for piece in part
        for element in range(piece.begin, piece.end)
    ]
    assert elements == [(n, e) for n, size in enumerate(sizes) for e in range(size)]
    lengths = [sum(piece.end - piece.begin for piece in part) for part in parts]
    assert len(lengths) == ranks
    assert max(lengths) == part_size(sizes, ranks)
    assert all(before >= after for before, after in pairwise(lengths))


# 2. Steps.


def config_of(folder, ranks, kind, sharded):
    optimizer = OptimizerConfig(
        kind=kind,
        warmup_epochs=0.5,
        nesterov=kind == "momentum",
        weight_decay=0.01,
        trust=0.1,
        # Where a gradient is nearly zero, a small one would turn rounding into whole updates.
        epsilon=0.1,
        rates=("logits=0.5",),
    )
    return scenarios.tiny_config(
        str(folder),
        batch_size=32 // ranks,
        optimizer=optimizer,
        sharded=ShardedOptions(sharded),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ranks"),
    [
        ("adamw", 2),
        *(pytest.param(*pair, marks=pytest.mark.long) for pair in (("lars", 3), ("momentum", 2))),
    ],
)
def test_it_trains_as_the_undivided_state(digits_folder, kind, ranks):
    """With two ranks bit-identical, as two summands have one order; LARS adds up norms in parts."""
    plain, ours = (
        run_world(scenarios.take_steps, ranks, config_of(digits_folder, ranks, kind, sharded), 12)
        for sharded in (False, True)
    )
    for rank in ours:
        assert same(rank["weights"], ours[0]["weights"])
        assert same(rank["moving"], ours[0]["moving"])
        assert (rank["loss"], rank["images"]) == (ours[0]["loss"], plain[0]["images"])
    wholes = [*ours[0]["divided"].values(), *ours[0]["optimizer"]]
    assert all(not rank["divided"] for rank in ours[1:])
    if ranks == 2 and kind != "lars":
        assert same(ours[0]["weights"], plain[0]["weights"])
        assert same(wholes, plain[0]["optimizer"])
    for left, right in (
        (ours[0]["weights"], plain[0]["weights"]),
        (wholes, plain[0]["optimizer"]),
    ):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_memory_of_the_state_falls_with_the_number_of_ranks(digits_folder):
    # Per parameter 8 bytes of AdamW's state and 4 for the weight that is updated.
    counts = {}
    for ranks in (2, 4):
        results = run_world(
            scenarios.take_steps, ranks, config_of(digits_folder, ranks, "adamw", True), 1
        )
        weights = sum(weight.size for weight in results[0]["weights"])
        # The count of steps takes 8.
        assert sum(result["bytes"] - 8 for result in results) == 12 * weights
        counts[ranks] = max(result["bytes"] for result in results)
    assert counts[4] < counts[2] * 0.51


@pytest.mark.long
def test_what_is_not_finite_on_one_rank_counts_for_all():
    fine, sharded = [1.0, 1.0], {"sharded": ShardedOptions(state=True)}
    # A weight of 1e4 leaves the loss finite, but not its gradient in float16 at a scale of 2**15.
    weights = [fine, [1.0, 1e4], fine]
    ranks = run_world(
        scenarios.weighted_steps, 2, "mixed_float16", weights, (-1, -1), 2000, "none", "momentum",
        sharded,
    )  # fmt: skip
    for before, skipped, after in ranks:
        assert (before["skipped"], skipped["skipped"], after["skipped"]) == (0, 1, 0)
        assert same(skipped["state"], before["state"])
        assert not same(after["state"], before["state"])
    for left, right in zip(*ranks, strict=True):
        assert same(left["state"], right["state"])


# 3. Runs.


@pytest.mark.long
def test_any_number_of_ranks_with_or_without_sharding_continues(workplace):
    """Two ranks end with the bits of an undivided run, whatever held the state between."""

    def train(name, steps, sharded, ranks=2):
        ended = fork_trainer(
            "train", *TINY, "--name", name, "--max-steps", str(steps), "--batch-size",
            str(48 // ranks), "--sharded.state", str(sharded), "--ranks", str(ranks),
            "--checkpoint.every-steps", "4", cwd=workplace, ranks=ranks,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    runs = workplace / "runs"
    train("whole", 20, sharded=False)
    train("parts", 7, sharded=True)
    for name in ("three", "undivided"):
        shutil.copytree(runs / "parts", runs / name)
    said = train("parts", 15, sharded=False)
    assert "--sharded.state: was True, is now False" in said
    train("parts", 20, sharded=True)
    assert final_state(runs / "parts") == final_state(runs / "whole")

    # Another number of ranks cuts the same state in other places.
    train("three", 9, sharded=True, ranks=3)
    train("undivided", 9, sharded=False, ranks=3)
    ours, theirs = final_state(runs / "three"), final_state(runs / "undivided")
    assert ours.keys() == theirs.keys()
    for name in [name for name in ours if name.startswith(("model/", "momentum/"))]:
        left, right = (np.frombuffer(state[name], np.float32) for state in (ours, theirs))
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-5)
    config = json.loads((runs / "three" / "config.json").read_text())
    assert config["config"]["sharded"]["state"] is True
