"""What holds for every leaf of the trainer, whatever it adds."""

import re
from dataclasses import fields as fields_of
from functools import reduce

import numpy as np
import pytest

from common import fields
from common.errors import ConfigError
from common.program import load
from tests.trainer.support import scenarios
from tests.trainer.support.world import run_world
from trainer.combinations import FEATURES, KINDS
from trainer.config import TrainConfig
from trainer.leaves import LEAVES
from trainer.presets import PRESETS, parse_train

OPTIONS = {
    feature.name: re.sub(
        r"above (\d+)", lambda found: str(int(found[1]) + 1), feature.words
    ).split()
    for leaf in LEAVES
    for feature in leaf.features
}
STRATEGIES = [leaf for leaf in LEAVES if leaf.strategy]


def asked(leaf, *others):
    """The digits with a leaf in use."""
    words = [word for one in leaf.features for word in OPTIONS[one.name]]
    # As some leaves need, and none forbids.
    return parse_train(["--checkpoint.keep-best", "True", *words, *others])


def key_of(leaf):
    return leaf.key or leaf.observer


@pytest.mark.parametrize("leaf", LEAVES, ids=key_of)
def test_its_options_are_a_group_and_use_nothing_by_default(leaf):
    if leaf.options:
        assert [one.name for one in fields_of(TrainConfig)].count(leaf.key) == 1
        assert PRESETS["digits"].of(leaf.options) == leaf.options()
    assert not leaf.used(PRESETS["digits"])


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES if leaf.options], ids=key_of)
def test_a_former_name_of_its_options_is_refused_with_the_new_one_and_read_in_files(leaf):
    for option in fields.leaves(leaf.options, f"{leaf.key}."):
        if option.former_flag:
            with pytest.raises(ConfigError, match=f"{option.former_flag}: is now .* {option.flag}"):
                parse_train([option.former_flag, "1"])
            *groups, name = option.former_key.split(".")
            stored = reduce(lambda inner, group: {group: inner}, reversed(groups), {name: "set"})
            read = fields.with_current_keys(TrainConfig, stored)
            assert read[leaf.key] == {option.key.partition(".")[2]: "set"}


@pytest.mark.parametrize("leaf", LEAVES, ids=key_of)
def test_what_it_names_is_there(leaf):
    for path in (leaf.strategy and leaf.strategy.code, leaf.observer):
        assert not path or callable(load(path))
    names = {one.name for one in FEATURES} | KINDS.keys()
    for feature in leaf.features:
        assert {name for excluded in feature.excludes for name in excluded} <= names
        # Of two features that exclude each other, such as two values of one option, the last is.
        assert feature.wanted(asked(leaf, *OPTIONS[feature.name]))


@pytest.mark.parametrize("leaf", STRATEGIES, ids=key_of)
def test_all_ranks_are_equal_after_the_last_step_whatever_the_strategy(leaf):
    strategy = asked(leaf).strategy
    assert type(strategy) is leaf.strategy
    for step in range(102):
        following = strategy.equal_after(step, 101)
        assert step <= following <= 101
        assert strategy.equal_after(following, 101) == following


@pytest.mark.slow
@pytest.mark.parametrize("leaf", STRATEGIES, ids=key_of)
def test_every_strategy_counts_each_image_once_and_keeps_ranks_equal(leaf, digits_folder):
    options = ["--data.dir", str(digits_folder), "--ranks", "2", "--epochs", "3"]
    results = run_world(scenarios.take_steps_of_a_run, 2, asked(leaf, *options), 6)
    for result in results:
        assert (result["steps"], result["images"]) == (6, 6 * 2 * 32)
        assert np.isfinite(result["loss"])
        assert result["loss"] == results[0]["loss"]
        assert result["state"].keys() == results[0]["state"].keys()
        for name, value in result["state"].items():
            assert value.tobytes() == results[0]["state"][name].tobytes(), name
