"""Networks of one's own that trace and are built, and the findings of their trial."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.published_networks import PUBLISHED
from trainer.checkpoints.snapshot import stored_name
from trainer.config import ModelConfig
from trainer.model.build import build_model
from trainer.model.layers import moving_statistics
from trainer.model.weights import variables_by_name

NETWORKS = "tests.trainer.support.own_networks"


def build(name, task="classification", *, trial=True):
    config = ModelConfig(builder=f"{NETWORKS}:{name}", image_size=8)
    return build_model(config, 10, task=task, trial=trial)


@pytest.mark.parametrize(
    "name",
    [
        *("tanh_with_bias", "tanh_not_fused", "decides_in_the_graph", "noises", "recurrent"),
        *("augmented", "frozen_twice", "functional_arithmetic", "layered_arithmetic", "gated"),
        "normalised",
    ],
)
def test_a_good_network_keeps_its_initial_values_in_its_trial(name):
    assert_kept_in_trial(name)


HALVES = ("convnext", "vit", "senet", "wide_resnet")
"""Networks that are tried in mixed precision as well: with weights of their own, and blocks."""


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, "float32") for name in PUBLISHED),
        *(pytest.param(name, "mixed_float16", marks=pytest.mark.long) for name in HALVES),
    ],
)
def test_a_published_network_as_people_write_it_can_be_trained(name, precision):
    config = ModelConfig(builder=f"{PUBLISHED[name].__module__}:{name}", image_size=32)
    tried = build_model(config, 10, precision)
    # Once more, as an evaluation builds it.
    again = build_model(config, 10, precision, trial=False)
    assert tried.graph_digest == again.graph_digest
    assert len(tried.trainable_variables) >= 4


def assert_kept_in_trial(name, task="classification"):
    random.seed(5)
    np.random.seed(5)
    tried = build(name, task)
    # The trial draws nothing from the generators of the process.
    drawn = random.random(), np.random.random()
    plain = build(name, task, trial=False)
    for one, other in zip(tried.variables, plain.variables, strict=True):
        assert np.array_equal(one.numpy(), other.numpy()), one.name
    random.seed(5)
    np.random.seed(5)
    assert drawn == (random.random(), np.random.random())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("added_loss", "layers add losses in training, with add_loss"),
        ("numpy_noise", "numpy_noise/add/y is a different constant each time that the network is"),
        (
            "python_noise",
            "python_noise/mul/y is a different constant each time that the network is",
        ),
        ("clock", "clock/Timestamp reads the clock, which a resumed run could not repeat"),
        ("in_python", "calls Python from the graph, which an exported model could not"),
        ("untracked", "the variable shift belongs to no layer, so a checkpoint would not hold it"),
        (
            "counted",
            "an evaluation changes the variable counted/calls, so that a run that is",
        ),
        ("counts_steps", "a training step changes the variable steps/steps, which is int64"),
        ("paired", ": cannot be trained: "),
        ("probabilities", "are those of a softmax, which add up to 1; leave it out"),
        ("own_softmax", "probabilities that add up to 1; leave out the softmax"),
        ("sigmoid", "are those of a sigmoid, which lie between 0 and 1; leave it out"),
        ("bounded", "are those of a tanh, which lie between -1 and 1, and so no probability"),
        ("decides", "AutoGraph is off): use tf.where, tf.cond or tf.while_loop, or decorate"),
    ],
)
def test_a_network_that_a_resumed_run_would_not_repeat_is_refused(name, said):
    with pytest.raises(ConfigError) as caught:
        build(name)
    (problem,) = caught.value.problems
    assert problem.startswith(f"--model.builder: {NETWORKS}:{name}: ")
    assert said in problem
    assert len(problem) < 900


def test_a_normalization_in_mixed_precision_is_refused_with_a_cure_that_helps():
    config = ModelConfig(builder=f"{NETWORKS}:normalised", image_size=8)
    with pytest.raises(ConfigError, match=r"mean is float16.*leave normalization out.*Rescaling"):
        build_model(config, 10, "mixed_float16")


def test_a_whole_number_is_in_checkpoints_but_not_among_what_ranks_exchange():
    model = build("normalised", trial=False)
    assert variables_by_name(model)["model/normalization/count"].dtype == tf.int64
    names = [stored_name(variable) for variable in moving_statistics(model)]
    assert names == ["normalization/mean", "normalization/variance"]


def test_a_softmax_over_another_axis_of_pixels_is_refused():
    with pytest.raises(ConfigError, match="the outputs are those of a softmax"):
        build("softmax_of_columns", "segmentation")


def test_a_network_that_only_its_compiled_evaluation_cannot_compute_is_refused():
    """TensorFlow 2.20 fuses the three layers where oneDNN is on, and has no kernel for it."""
    code = f"""
from common.errors import ConfigError
from trainer.config import ModelConfig
from trainer.model.build import build_model
for name in ("tanh", "mish", "tanh_with_bias", "tanh_not_fused", "spectral"):
    try:
        build_model(ModelConfig(builder="{NETWORKS}:" + name, image_size=8), 10)
        print(name, "can be trained")
    except ConfigError as error:
        print(name, *error.problems)
"""
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_USE_LEGACY_KERAS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    tanh, mish, *others = done.stdout.splitlines()
    for refused, name in ((tanh, "Tanh"), (mish, "Mish")):
        assert f"Fusion is not implemented: [FusedBatchNorm,{name}]" in refused
        assert "give the batch norm fused=False, or the convolution use_bias=True" in refused
    assert all(other.endswith("can be trained") for other in others)
    assert len(others) == 3
