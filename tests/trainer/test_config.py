"""Configurations: round trips, refusals, and modules that they never import."""

import ast
import contextlib
import json
import math
import os
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import get_args, get_origin

import pytest
from hypothesis import given, settings

from common import fields
from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.random_configs import LEAVES, changed, configs
from trainer import config, gone, leaves, model_config, presets
from trainer.config import TrainConfig
from trainer.presets import EXPECTATIONS, PRESETS, to_args

INTEGERS = [
    leaf for leaf in LEAVES.values() if leaf.type is int or set(get_args(leaf.type)) & {int}
]
NUMBERS = [leaf for leaf in LEAVES.values() if leaf.type is float]


def python(script, **env):
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# 1. Round trips.


@settings(deadline=None, max_examples=60)
@given(configs())
def test_the_arguments_of_a_configuration_give_it_back(wanted):
    args = to_args(wanted)
    assert presets.parse_train(args) == wanted


@pytest.mark.parametrize("name", PRESETS)
def test_the_arguments_of_a_preset_are_its_name(name):
    assert to_args(PRESETS[name]) == ["--preset", name]


def test_arguments_name_only_what_differs_from_the_preset():
    wanted = changed(PRESETS["digits"], {"epochs": 7, "model.depth": 18, "data.flip": False})
    args = to_args(wanted)
    assert args == ["--preset", "digits", "--epochs", "7", "--model.depth", "18"]


def test_an_empty_list_survives_the_command_line():
    wanted = changed(PRESETS["digits"], {"optimizer.decay_epochs": ()})
    assert presets.parse_train(to_args(wanted)) == wanted


@pytest.mark.parametrize("key", ["name", "data.dir", "log.tensorboard_dir"])
def test_the_text_none_is_refused_or_survives_the_command_line(key):
    # It is also how the command line writes that there is no value.
    wanted = None
    with contextlib.suppress(ConfigError):
        wanted = changed(PRESETS["digits"], {key: "None"})
    assert wanted is None or presets.parse_train(to_args(wanted)) == wanted


@settings(deadline=None, max_examples=60)
@given(configs())
def test_json_of_a_configuration_gives_it_back(wanted):
    text = json.dumps(fields.to_dict(wanted))
    assert fields.from_dict(TrainConfig, json.loads(text)) == wanted


def test_options_change_the_preset_wherever_it_stands():
    assert presets.parse_train([]) == PRESETS["digits"]
    assert presets.parse_train(["--preset=synthetic"]) == PRESETS["synthetic"]
    after = presets.parse_train(["--batch-size", "3", "--preset", "synthetic"])
    assert after == changed(PRESETS["synthetic"], {"batch_size": 3})


# 2. Refusals.


def test_the_command_line_lists_every_problem_at_once():
    with pytest.raises(ConfigError) as caught:
        presets.parse_train(["--model.dept", "50", "--batch-size", "many", "--epochs", "0"])
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 3
    assert "--model.dept: unknown option; did you mean --model.depth?" in problems
    assert "--batch-size: 'many' is not a whole number" in problems
    assert "--epochs: 0 must be at least 1" in problems


def test_plain_data_list_every_problem_at_once():
    data = {"model": {"dept": 50}, "batch_size": "many", "epochs": 0, "data": {"source": "web"}}
    with pytest.raises(ConfigError) as caught:
        fields.from_dict(TrainConfig, data)
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 4
    assert "model.dept: unknown key; did you mean model.depth?" in problems
    assert "batch_size: 'many' is not a whole number" in problems
    assert "epochs: 0 must be at least 1" in problems
    assert f"data.source: 'web' is not one of {', '.join(get_args(config.SourceName))}" in problems


@pytest.mark.parametrize("key", gone.OPTIONS)
def test_an_option_of_an_earlier_version_is_refused_and_left_out_of_what_was_written(key):
    with pytest.raises(ConfigError, match=r"--.*: version [0-9.]+ was the last with it; "):
        presets.parse_train([f"--{key.replace('_', '-')}", "1"])
    stored = fields.to_dict(PRESETS["digits"])
    *groups, name = key.split(".")
    reduce(lambda inner, group: inner[group], groups, stored)[name] = {"any": 1}
    current = fields.with_current_keys(TrainConfig, stored)
    assert fields.from_dict(TrainConfig, current) == PRESETS["digits"]


def test_unknown_preset_is_refused_with_those_that_exist():
    with pytest.raises(ConfigError) as caught:
        presets.parse_train(["--preset", "digit"])
    assert all(name in str(caught.value) for name in ["'digit'", *PRESETS])


def test_a_preset_without_its_name_is_refused():
    with pytest.raises(ConfigError, match="--preset"):
        presets.parse_train(["--preset"])


@pytest.mark.parametrize("leaf", [*INTEGERS, *NUMBERS], ids=lambda leaf: leaf.key)
def test_a_bool_is_not_a_number(leaf):
    with pytest.raises(ConfigError, match=f"{leaf.flag}: True is not"):
        changed(PRESETS["digits"], {leaf.key: True})


def test_a_whole_number_is_a_number():
    assert presets.parse_train(["--optimizer.warmup-epochs", "3"]).optimizer.warmup_epochs == 3.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("leaf", NUMBERS, ids=lambda leaf: leaf.key)
def test_numbers_that_are_not_finite_are_refused(leaf, value):
    with pytest.raises(ConfigError, match=leaf.flag):
        changed(PRESETS["digits"], {leaf.key: value})


@pytest.mark.parametrize(
    "text",
    [*("nan", "inf", "-inf", "Infinity", "1e400"), pytest.param("1" + "0" * 400, id="too large")],
)
def test_numbers_that_are_not_finite_are_refused_on_the_command_line(text):
    with pytest.raises(ConfigError, match=r"--optimizer\.learning-rate"):
        presets.parse_train([f"--optimizer.learning-rate={text}"])


@pytest.mark.parametrize("leaf", [leaf for leaf in LEAVES.values() if leaf.bounds], ids=str)
def test_values_just_outside_their_bounds_are_refused(leaf):
    bounds = leaf.bounds
    whole = leaf in INTEGERS
    outside = []
    if bounds.at_least is not None:
        low = bounds.at_least
        outside.append(int(low) - 1 if whole else math.nextafter(low, -math.inf))
    if bounds.at_most is not None:
        high = bounds.at_most
        outside.append(int(high) + 1 if whole else math.nextafter(high, math.inf))
    outside += [
        int(edge) if whole else edge for edge in (bounds.above, bounds.below) if edge is not None
    ]
    assert outside
    for value in outside:
        given_value = (value,) if get_origin(leaf.type) is tuple else value
        with pytest.raises(ConfigError, match=f"{leaf.flag}: .* must be"):
            changed(PRESETS["digits"], {leaf.key: given_value})


CONTRADICTIONS = {
    "tfrecords without a folder": (
        {"data.source": "tfrecords", "data.dir": None},
        "--data.dir: name the folder with the shards and their manifest.json",
    ),
    "synthetic with a folder": (
        {"data.source": "synthetic", "data.dir": "data/x"},
        "--data.dir: synthetic data is not read from a folder; leave it out",
    ),
    "mirrored digits": (
        {"data.flip": True},
        "--data.flip: a mirrored digit is a different symbol; set it to False",
    ),
    "shift out of view": (
        {"data.shift_pixels": 16},
        "--data.shift-pixels: 16 moves the whole image out of view",
    ),
    "unequal micro-batches": (
        {"batch_size": 32, "optimizer.accumulation": 5},
        "--batch-size: 32 cannot be divided evenly into --optimizer.accumulation 5 micro-batches",
    ),
    "nothing but warm-up": (
        {"epochs": 3, "optimizer.warmup_epochs": 3.0},
        "--optimizer.warmup-epochs: 3 must be less than --epochs 3; give more epochs, or"
        " --optimizer.warmup-epochs 0",
    ),
    "falling decays": (
        {"optimizer.decay_epochs": (60.0, 30.0)},
        "--optimizer.decay-epochs: (60.0, 30.0) must be increasing",
    ),
    "equal decays": (
        {"optimizer.decay_epochs": (30.0, 30.0)},
        "--optimizer.decay-epochs: (30.0, 30.0) must be increasing",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_refused_with_its_keys(case):
    values_of_case, message = CONTRADICTIONS[case]
    with pytest.raises(ConfigError) as caught:
        changed(PRESETS["digits"], values_of_case)
    assert caught.value.problems == (message,)


@pytest.mark.parametrize("name", ["", "latest", "a/b", "../x", "-x", ".x", "a b", "a" * 101, "a\n"])
def test_a_name_that_is_no_folder_of_its_own_is_refused(name):
    with pytest.raises(ConfigError, match="--name: "):
        changed(PRESETS["digits"], {"name": name})


@pytest.mark.parametrize("folder", ["", "-x", "--epochs"])
@pytest.mark.parametrize("key", ["runs_dir", "data.dir", "log.tensorboard_dir"])
def test_a_folder_without_a_name_or_like_an_option_is_refused(key, folder):
    with pytest.raises(ConfigError, match=f"{LEAVES[key].flag}: .* is not a folder name"):
        changed(PRESETS["digits"], {key: folder})


# 3. Texts for people.


def declarations():
    """Every field of every dataclass of a configuration with its own docstring, or none."""
    of_leaves = (
        sys.modules[leaf.options.__module__].__file__ for leaf in leaves.LEAVES if leaf.options
    )
    files = (config.__file__, model_config.__file__, *of_leaves)
    nodes = [node for file in files for node in ast.parse(Path(file).read_text()).body]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    documented = {cls.name for cls in classes if ast.get_docstring(cls)}
    for cls in classes:
        for node, following in zip(cls.body, [*cls.body[1:], None], strict=True):
            if not isinstance(node, ast.AnnAssign):
                continue
            text = None
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                text = following.value.value
            elif isinstance(node.annotation, ast.Name) and node.annotation.id in documented:
                text = "its class says it"
            yield f"{cls.name}.{ast.unparse(node.target)}", text


def test_every_field_has_a_docstring():
    assert [name for name, text in declarations() if not text] == []


def test_every_preset_has_an_expectation_with_its_source():
    assert EXPECTATIONS.keys() == PRESETS.keys()
    assert all(found.result and found.source for found in EXPECTATIONS.values())


def test_every_preset_carries_its_own_name():
    assert {name: preset.preset for name, preset in PRESETS.items()} == {n: n for n in PRESETS}


def test_help_of_train_mentions_every_option():
    result = python(
        "import sys; from trainer.cli import main; sys.exit(main(['train', '--help']))",
        COLUMNS="100",
    )
    words = result.stdout.replace(",", " ").split()
    assert result.returncode == 0, result.stderr
    assert [leaf.flag for leaf in LEAVES.values() if leaf.flag not in words] == []
    assert "--dry-run" in words


# 4. Imports that never happen.


def test_configurations_import_neither_tensorflow_nor_numpy_nor_horovod():
    result = python(
        "import sys, trainer.config, trainer.presets;"
        "print({'tensorflow', 'numpy', 'horovod'} & set(sys.modules))"
    )
    assert result.stdout == "set()\n", result.stderr


def test_a_bad_configuration_is_refused_before_tensorflow_is_imported():
    result = python(
        "import sys; from trainer.cli import main;"
        "status = main(['train', '--epochs', '0', '--batch', '3']);"
        "print('tensorflow' in sys.modules); sys.exit(status)"
    )
    assert result.returncode == 2
    assert result.stdout == "False\n"
    assert "--epochs: 0 must be at least 1" in result.stderr
    assert "--batch: unknown option; did you mean --batch-size?" in result.stderr


def test_an_option_without_its_value_is_listed_with_everything_else():
    with pytest.raises(ConfigError) as caught:
        presets.parse_train(["--batch-size", "--epochs", "x", "--runs-dir"])
    assert "--batch-size: needs a value" in caught.value.problems
    assert "--runs-dir: needs a value" in caught.value.problems
    assert any(problem.startswith("--epochs: 'x'") for problem in caught.value.problems)


@pytest.mark.parametrize("kind", ["lars", "adamw"])
def test_a_look_ahead_of_another_optimizer_is_refused(kind):
    with pytest.raises(ConfigError) as caught:
        presets.parse_train(["--optimizer.kind", kind])
    assert caught.value.problems == (
        f"--optimizer.nesterov: {kind} has no look-ahead; set it to False",
    )


def test_a_switch_that_stands_alone_means_true():
    assert presets.parse_train(["--compute.xla", "--epochs", "9"]).compute.xla


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_compression_to_float16_without_a_loss_scale_is_refused(precision):
    with pytest.raises(ConfigError) as caught:
        presets.parse_train(["--exchange.compression", "fp16", "--compute.precision", precision])
    assert caught.value.problems == (
        "--exchange.compression: fp16 needs --compute.precision mixed_float16",
    )
