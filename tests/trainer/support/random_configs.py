"""Random configurations that are valid, for tests of round trips."""

import re
import string
import types
from dataclasses import replace
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from common import annotations, fields
from common.errors import ConfigError
from trainer.config import TrainConfig
from trainer.leaf import DENSE_TASK
from trainer.leaves import LEAVES as ROWS
from trainer.leaves import TASKS
from trainer.networks import NETWORKS
from trainer.presets import PRESETS

LEAVES = {leaf.key: leaf for leaf in fields.leaves(TrainConfig)}


def changed(base, values):
    """A configuration with other values at dotted keys."""
    groups: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for key, value in values.items():
        group, _, name = key.rpartition(".")
        (groups.setdefault(group, {}) if group else top)[name] = value
    nested = {name: replace(getattr(base, name), **part) for name, part in groups.items()}
    return replace(base, **top, **nested)


def numbers(kind, bounds):
    bounds = bounds or annotations.Bounds()
    low = bounds.at_least if bounds.at_least is not None else bounds.above
    high = bounds.at_most if bounds.at_most is not None else bounds.below
    if kind is int:
        whole = {"min_value": low, "max_value": high}
        return st.integers(**{k: v if v is None else int(v) for k, v in whole.items()}).filter(
            bounds.allow
        )
    return st.floats(
        low,
        high,
        exclude_min=bounds.above is not None,
        exclude_max=bounds.below is not None,
        allow_nan=False,
        allow_infinity=False,
    )


def texts(key):
    if key == "name":
        rest = st.text(string.ascii_letters + string.digits + "._-", max_size=99)
        names = st.tuples(st.sampled_from(string.ascii_letters + string.digits), rest)
        # "None" has a test of its own.
        return names.map("".join).filter(lambda name: name not in ("latest", "None"))
    if key == "profile.steps":
        spans = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6))
        return spans.map(lambda span: f"{span[0]}:{sum(span)}")
    choices = {
        "events.address": ["azure", "nowhere", "http://127.0.0.1:8080"],
        "model.network": sorted(NETWORKS),
        "slices.pattern": ["(.)"],
        "evidence.vault_key": ["https://v.vault.azure.net/keys/k"],
    }
    if key in choices:
        return st.sampled_from(choices[key])
    if key == "optimizer.rates":
        factors = st.floats(0, allow_infinity=False).map(repr)
        prefixes = st.text(string.ascii_letters + string.digits + "_/=", min_size=1, max_size=9)
        return st.tuples(prefixes, factors).map("=".join)
    if key == "model.builder":
        words = st.from_regex(r"[a-z_]\w{0,8}", fullmatch=True)
        return st.tuples(words, words, words).map(lambda part: f"{part[0]}.{part[1]}:{part[2]}")
    # Characters of a process's arguments: no surrogates, no NUL.
    characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    folders = st.text(characters, min_size=1, max_size=20)
    return folders.filter(lambda folder: not folder.startswith("-") and folder != "None")


def values(leaf, hint=None):
    hint = hint or leaf.type
    origin = get_origin(hint)
    if origin is Literal:
        return st.sampled_from(get_args(hint))
    if origin in (Union, types.UnionType):
        parts = [st.none() if part is type(None) else values(leaf, part) for part in get_args(hint)]
        return st.one_of(parts)
    if origin is tuple and get_args(hint)[0] is str:
        unique_by = (lambda text: text.rpartition("=")[0]) if "rates" in leaf.key else None
        return st.lists(texts(leaf.key), max_size=3, unique_by=unique_by).map(tuple)
    if origin is tuple:
        parts_of_it = st.lists(numbers(get_args(hint)[0], leaf.bounds), max_size=4, unique=True)
        return parts_of_it.map(lambda items: tuple(sorted(items)))
    if hint is bool:
        return st.booleans()
    return texts(leaf.key) if hint is str else numbers(hint, leaf.bounds)


def mend_network(picked, value):
    """Choose a network that fits the task, and no other one with a builder; and the further options
    of a detection.
    """
    if value("task") == "detection":
        picked |= {"data.eval_crop": 1.0, "optimizer.label_smoothing": 0.0, "data.augment": "none"}
    per = TASKS[value("task")].per
    if per != "image" or value("batch_size") <= value("optimizer.accumulation"):
        picked |= {"data.mixup": 0.0, "data.cutmix": 0.0}
    if value("model.builder") is not None:
        picked["model.network"] = "resnet"
    elif NETWORKS[value("model.network")].per != per:
        picked["model.network"] = TASKS[value("task")].suggestion.network


def mend_options(picked, value):
    """Save every best checkpoint where evaluations end a run, and freeze only stages that exist."""
    if "early_stop.patience" in LEAVES and value("early_stop.patience"):
        picked |= {"checkpoint.keep_best": True, "checkpoint.every_epochs": 1}
        picked |= {"checkpoint.when_busy": "wait"}
    staged = "depth" in NETWORKS[value("model.network")].options
    if value("model.builder") is not None or not staged:
        picked |= {"model.frozen_stages": 0, "optimizer.layer_decay": 1.0}


PARALLEL = [leaf for leaf in ROWS if leaf.strategy]
"""The leaves of which at most one is used."""


def off(leaf):
    """The default values of a leaf's options, by dotted key."""
    return {f"{leaf.key}.{key}": default for key, default in vars(leaf.options()).items()}


def mend_combination(picked, value):
    """Leave one form of parallelism, and the options that it allows."""
    asked = [
        leaf
        for leaf in PARALLEL
        if any(value(key) != default for key, default in off(leaf).items())
    ]
    for leaf in asked[1:]:
        picked.update(off(leaf))
    if "virtual_ranks.count" in LEAVES and value("virtual_ranks.count"):
        picked["virtual_ranks.count"] = count = 2 << value("virtual_ranks.count") % 6
        picked["data.streams"] = value("data.streams") * count
    if asked:
        picked["exchange.compression"] = "none"
        picked["compute.xla"] = False
        picked["compute.precision"] = "float32"
        excluded = [names for feature in asked[0].features for names in feature.excludes]
        if TASKS[value("task")].features and (DENSE_TASK,) in excluded:
            picked.update(off(asked[0]))


def without_refused_leaves(base, picked):
    """The configuration, with the options of each leaf that refuses it set to their defaults."""
    try:
        return changed(base, picked)
    except ConfigError as error:
        refused = [
            leaf for leaf in ROWS if re.search(rf"--{leaf.key.replace('_', '-')}[.:]", str(error))
        ]
        rest = picked | {key: value for leaf in refused for key, value in off(leaf).items()}
        if rest == picked:
            raise
        return without_refused_leaves(base, rest)


@st.composite
def configs(draw):
    """A preset with random fields changed, and contradictions mended."""
    base = PRESETS[draw(st.sampled_from(sorted(PRESETS)))]
    keys = draw(st.sets(st.sampled_from(sorted(LEAVES.keys() - {"preset"}))))
    picked = {key: draw(values(LEAVES[key])) for key in sorted(keys)}

    def value(key):
        return picked.get(key, fields.get(base, key))

    if value("data.source") == "tfrecords" and value("data.dir") is None:
        picked["data.dir"] = draw(texts("data.dir"))
    if value("data.source") == "synthetic":
        picked["data.dir"] = None
    for task in TASKS.values():
        if value("data.source") == task.embedded.source:
            picked["data.flip"] = False
            picked["task"] = task.name
    mend_network(picked, value)
    mend_options(picked, value)
    smallest = NETWORKS[value("model.network")].smallest
    picked["model.image_size"] = max(value("model.image_size"), smallest)
    picked["data.shift_pixels"] = min(value("data.shift_pixels"), value("model.image_size") - 1)
    if value("batch_size") % value("optimizer.accumulation"):
        picked["batch_size"] = value("batch_size") * value("optimizer.accumulation")
    if value("optimizer.kind") != "momentum":
        picked["optimizer.nesterov"] = False
    if value("optimizer.warmup_epochs") >= value("epochs"):
        picked["optimizer.warmup_epochs"] = 0.0
    mend_combination(picked, value)
    if value("exchange.compression") == "fp16":
        picked["compute.precision"] = "mixed_float16"
    return without_refused_leaves(base, picked)
