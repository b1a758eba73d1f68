"""Networks of one's own: accepted ones, and the words of each refusal."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import ConfigError
from trainer.config import ModelConfig
from trainer.model.build import build_model
from trainer.model.preflight import check_model_files
from trainer.model.randomness import is_random, randomness

BUILDERS = "tests.trainer.support.builders"


def build(name, precision="float32", seed=0):
    config = ModelConfig(builder=f"{BUILDERS}:{name}", image_size=8)
    return build_model(config, 10, precision, seed)


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
@pytest.mark.parametrize("name", ["good", "subclassed", "attention"])
def test_a_good_network_is_accepted(name, precision):
    model = build(name, precision)
    logits = model(tf.zeros([3, 8, 8, 3]), training=False)
    assert (logits.shape, logits.dtype) == ([3, 10], tf.float32)
    assert {variable.dtype for variable in model.variables} == {tf.float32}
    assert is_random(model)


def test_layers_without_names_and_seeds_start_the_same_whatever_was_built_before():
    build("attention")
    one, other, third = build("good"), build("good"), build("good", seed=1)
    assert [v.name for v in one.variables] == [v.name for v in other.variables]
    pairs = list(zip(one.variables, other.variables, third.variables, strict=True))
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b, _ in pairs)
    assert not np.array_equal(pairs[0][0].numpy(), pairs[0][2].numpy())


def test_mixed_precision_computes_in_float16_and_starts_with_the_same_weights():
    half, whole = build("good", "mixed_float16"), build("good")
    assert half.layers[1].compute_dtype == "float16"
    for a, b in zip(half.variables, whole.variables, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", "has no function missing"),
        ("raises", "failed: RuntimeError: no such thing"),
        ("takes_nothing", "failed: TypeError"),
        ("function_only", "returned builtins.function; return a tf_keras.Model"),
        ("other_size", "does not accept images [b, 8, 8, 3]"),
        ("other_outputs", "returns [b, 11]; end it with a dense layer"),
        ("several", "returns a list; return one tensor"),
        ("half", "the logits are float16; give the last layer dtype='float32'"),
        ("half_weights", "is float16; all variables must be float32"),
        ("same_names", "several variables are called twice/w"),
        ("nothing_to_learn", "has no trainable variable"),
        ("own_loss", "such as a kernel_regularizer, which would have no effect"),
        ("own_randomness", "draws random numbers that a resumed run could not repeat"),
        ("always_random", "a layer draws random numbers outside of a training step"),
        ("without_effect", "lost/kernel has no effect on the logits"),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused(name, said):
    with pytest.raises(ConfigError) as caught:
        build(name)
    (problem,) = caught.value.problems
    assert problem.startswith(f"--model.builder: {BUILDERS}:{name}: ")
    assert said in problem


def test_an_error_names_the_line_of_the_builder():
    with pytest.raises(ConfigError, match=r"builders\.py, line \d+"):
        build("raises")


def test_a_module_that_cannot_be_imported_is_refused():
    with pytest.raises(ConfigError, match="cannot be imported: ModuleNotFoundError"):
        build_model(ModelConfig(builder="tests.none:build"), 10)


def test_missing_files_are_reported_together_before_anything_starts(tmp_path):
    config = ModelConfig(builder="nowhere.small:build", weights=str(tmp_path / "none.h5"))
    with pytest.raises(ConfigError) as caught:
        check_model_files(config, resumes=False)
    assert len(caught.value.problems) == 2
    # A run that continues has kept the code, and reads no weights.
    check_model_files(config, resumes=True)


def test_dropout_outside_of_a_training_step_is_an_error():
    model = build("good")
    with pytest.raises(ValueError, match="outside of a training step"):
        model(tf.zeros([2, 8, 8, 3]), training=True)
    with randomness(model, 0, tf.constant(1), 0, 0):
        model(tf.zeros([2, 8, 8, 3]), training=True)
