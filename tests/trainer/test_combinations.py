"""Which features go together: the table is complete, has reasons, and is in the documents."""

from itertools import combinations

import pytest

from common.errors import ConfigError
from tests import ROOT
from trainer.combinations import FEATURES, UNSUPPORTED
from trainer.leaves import TASKS
from trainer.presets import parse_train

BASE = ["--preset", "imagenet-1gpu", "--compute.precision", "float32", "--compute.xla", "False"]


def config_with(features):
    """A configuration that asks for these features."""
    options = [word for feature in features for word in feature.words.split()]
    args = " ".join(options).replace("above 1", "2").replace("above 0", "2").split()
    if "segmentation" in args:
        args += ["--model.network", "unet"]
    if "detection" in args:
        args += ["--model.network", "fcos", "--data.eval-crop", "1"]
        args += ["--optimizer.label-smoothing", "0"]
    if {"--task", "--early-stop.metric"} <= {*args}:
        # Each task has metrics of its own.
        (metric, *_) = TASKS[args[args.index("--task") + 1]].evaluation
        args[args.index("--early-stop.metric") + 1] = metric.key
    if "fp16" in args:
        # Float16 on the wire needs float16 in the network.
        args += ["--compute.precision", "mixed_float16"]
    return parse_train([*BASE, *args])


def name(features):
    return " and ".join(feature.name for feature in features)


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: name(row[0]))
def test_what_is_not_supported_is_refused_with_the_options_and_the_reason(row):
    features, reason = row
    with pytest.raises(ConfigError) as refused:
        config_with(features)
    assert reason in str(refused.value)
    assert all(feature.words in str(refused.value) for feature in features)


@pytest.mark.parametrize(
    "pair",
    [
        pair
        for pair in combinations(FEATURES, 2)
        # A run has one task.
        if not all(one.words.startswith("--task") for one in pair)
        and not any(
            {one.name for one in row} == {one.name for one in pair} for row, _ in UNSUPPORTED
        )
    ],
    ids=name,
)
def test_every_other_pair_is_accepted(pair):
    asked = config_with(pair)
    assert all(feature.wanted(asked) for feature in pair)


def test_a_reason_is_given_once():
    rows = [frozenset(feature.name for feature in features) for features, _ in UNSUPPORTED]
    assert len(rows) == len(set(rows))


def test_the_document_has_the_table():
    rows = [
        f"| {' with '.join(f'`{feature.words}`' for feature in features)} | {reason} |"
        for features, reason in UNSUPPORTED
    ]
    text = (ROOT / "docs" / "reference" / "combinations.md").read_text()
    assert [line for line in text.splitlines() if line in rows] == rows
