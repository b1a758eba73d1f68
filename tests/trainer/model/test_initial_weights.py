"""Fine-tuning: weights to start from, and layers that are not trained."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras as keras

from common.errors import ConfigError
from tests import ROOT
from tests.trainer.support.command import TINY, final_state
from tests.trainer.support.forked import fork_trainer
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import STATE
from trainer.checkpoints.snapshot import snapshot
from trainer.config import ModelConfig
from trainer.errors import CheckpointError
from trainer.model.build import build_model
from trainer.model.initial_weights import load_initial_weights
from trainer.model.layers import moving_statistics
from trainer.model.weights import variables_by_name

TINY_RESNET = ModelConfig(depth=18, width=4, stem="3x3", image_size=8)
BUILDERS = "tests.trainer.support.builders"


def stored(model, folder):
    """The state file of a checkpoint of a model."""
    checkpoints = CheckpointFolder(folder / "checkpoints")
    checkpoints.save(1, {**snapshot(variables_by_name(model)), "step": np.zeros(1)}, {})
    found = checkpoints.newest()
    assert found is not None
    return found.path / STATE


def weights_of(layer):
    return [value.tobytes() for value in layer.get_weights()]


def equal_layers(left, right):
    """Whether each layer with weights of two models is the same, by name."""
    pairs = ((a, b) for a, b in zip(left.layers, right.layers, strict=True) if a.weights)
    return {a.name: weights_of(a) == weights_of(b) for a, b in pairs}


# 1. Weights to start from.


def test_a_checkpoint_gives_all_weights_to_an_equal_network(tmp_path):
    source, model = build_model(TINY_RESNET, 10, seed=1), build_model(TINY_RESNET, 10)
    told = load_initial_weights(model, stored(source, tmp_path))
    assert told.endswith("initial weights")
    assert all(equal_layers(source, model).values())


def test_the_last_layer_of_another_shape_keeps_its_own_and_this_is_said(tmp_path):
    source, model = build_model(TINY_RESNET, 10, seed=1), build_model(TINY_RESNET, 7)
    before = weights_of(model.get_layer("logits"))
    told = load_initial_weights(model, stored(source, tmp_path))
    assert "; logits differs and keeps its own" in told
    assert weights_of(model.get_layer("logits")) == before
    assert [name for name, same in equal_layers(source, model).items() if not same] == ["logits"]


def test_another_network_is_refused_by_the_name_of_a_variable_and_changes_nothing(tmp_path):
    file = stored(build_model(TINY_RESNET, 10, seed=1), tmp_path)
    wider = build_model(ModelConfig(depth=18, width=8, stem="3x3", image_size=8), 10)
    before = wider.get_weights()
    with pytest.raises(CheckpointError, match=r"conv0/kernel has the shape \(3, 3, 3, 4\) instead"):
        load_initial_weights(wider, file)
    assert all(np.array_equal(a, b) for a, b in zip(before, wider.get_weights(), strict=True))
    deeper = build_model(ModelConfig(depth=34, width=4, stem="3x3", image_size=8), 10)
    with pytest.raises(CheckpointError, match="another network"):
        load_initial_weights(deeper, file)
    tensors = safetensors.numpy.load_file(file)
    del tensors["model/conv0/kernel"]
    safetensors.numpy.save_file(tensors, tmp_path / "less.safetensors")
    with pytest.raises(CheckpointError, match=r"another network: conv0/kernel is missing$"):
        load_initial_weights(build_model(TINY_RESNET, 10), tmp_path / "less.safetensors")


@pytest.mark.parametrize("name", ["state.safetensors", "x.h5", "x.weights.h5"])
def test_a_file_that_is_none_of_these_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_initial_weights(build_model(TINY_RESNET, 10), tmp_path / name)


# As the published files: the application as it is, its preprocessing and numbered names included.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "MobileNetV2",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("EfficientNetB0", "Xception")),
    ],
)
def test_a_file_of_keras_gives_an_application_its_weights(tmp_path, name):
    size = 96
    keras.utils.set_random_seed(5)
    # Its layers are numbered after those of the first one.
    getattr(keras.applications, name)(weights=None, include_top=False)
    source = getattr(keras.applications, name)(
        weights=None, include_top=False, input_shape=(size, size, 3)
    )
    source.save_weights(tmp_path / "notop.h5")
    model = build_model(ModelConfig(network=name, image_size=size), 10)
    told = load_initial_weights(model, tmp_path / "notop.h5")
    assert "logits differs and keeps its own" in told
    images = tf.random.stateless_uniform([2, size, size, 3], [1, 2])
    # EfficientNet divides by 255, and its statistics of images are 0 and 1 at the start.
    given = images * 255.0 if name == "EfficientNetB0" else images
    features = tf.reduce_mean(source(given, training=False), [1, 2])
    expected = model.get_layer("logits")(features).numpy()
    np.testing.assert_allclose(model(images, training=False), expected, rtol=1e-3, atol=1e-5)


def test_a_new_file_of_keras_gives_all_weights(tmp_path):
    source, model = build_model(TINY_RESNET, 10, seed=1), build_model(TINY_RESNET, 10)
    source.save_weights(tmp_path / "all.weights.h5")
    load_initial_weights(model, tmp_path / "all.weights.h5")
    assert all(equal_layers(source, model).values())


def test_a_new_file_of_keras_with_a_value_that_is_not_finite_is_refused(tmp_path):
    source, model = build_model(TINY_RESNET, 10, seed=1), build_model(TINY_RESNET, 10)
    kernel = source.get_layer("conv0").kernel
    kernel.assign(tf.fill(kernel.shape, np.nan))
    source.save_weights(tmp_path / "all.weights.h5")
    with pytest.raises(CheckpointError, match=r"values of conv0/kernel are not finite"):
        load_initial_weights(model, tmp_path / "all.weights.h5")


def test_a_file_that_only_keras_3_reads_is_refused_with_what_to_write_instead(tmp_path):
    with pytest.raises(CheckpointError, match=r"Keras 3; .* model\.save\(\"weights\.h5\"\)"):
        load_initial_weights(build_model(TINY_RESNET, 10), tmp_path / "whole.keras")


KERAS_3 = """
import keras, numpy
layers = keras.layers
model = keras.Sequential([
    layers.Input((4, 4, 3)), layers.Conv2D(2, 3, name="first"),
    layers.BatchNormalization(name="norm"), layers.Flatten(), layers.Dense(5, name="last"),
])
for weight in model.weights:
    weight.assign(numpy.arange(numpy.prod(weight.shape)).reshape(weight.shape))
model.save("weights.h5")
"""


@pytest.mark.long
def test_a_file_of_keras_3_in_the_format_of_keras_2_is_read(tmp_path):
    command = [sys.executable, "-c", KERAS_3]
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    layers = [
        keras.layers.Input((4, 4, 3)),
        keras.layers.Conv2D(2, 3, name="other"),
        keras.layers.BatchNormalization(),
        keras.layers.Flatten(),
        keras.layers.Dense(5),
    ]
    model = keras.Sequential(layers)
    told = load_initial_weights(model, tmp_path / "weights.h5")
    assert told.endswith("weights.h5: initial weights")
    for weight in model.get_weights():
        np.testing.assert_array_equal(weight.ravel(), np.arange(weight.size))


# 2. Layers that are not trained.


def test_frozen_layers_are_chosen_by_the_beginning_of_their_name():
    config = ModelConfig(depth=18, width=4, stem="3x3", image_size=8, frozen=("conv0", "norm"))
    model, free = build_model(config, 10), build_model(TINY_RESNET, 10)
    names = {variable.name.partition("/")[0] for variable in model.trainable_variables}
    assert not {name for name in names if name.startswith("norm")}
    assert "conv0" not in names
    assert "conv1" in names
    assert moving_statistics(model) == []
    assert [v.name for v in moving_statistics(free)] == [
        v.name for v in free.non_trainable_variables
    ]


def test_batch_norms_of_frozen_layers_do_not_move():
    model = build_model(ModelConfig(**{**vars(TINY_RESNET), "frozen": ("norm0",)}), 10)
    before = model.get_layer("norm0").get_weights()
    model(tf.random.stateless_normal([8, 8, 8, 3], [1, 2]), training=True)
    after = model.get_layer("norm0").get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert not np.array_equal(model.get_layer("norm1").moving_mean, np.zeros(4))


@pytest.mark.parametrize(
    ("frozen", "said"),
    [
        (("stem",), "'stem' begins no layer's name; layers with weights: conv0, norm0"),
        (("conv", "norm", "logits"), "conv norm logits: leaves nothing to train"),
    ],
)
def test_a_choice_of_frozen_layers_that_makes_no_sense_is_refused(frozen, said):
    with pytest.raises(ConfigError, match=f"--model.frozen: {said}"):
        build_model(ModelConfig(**{**vars(TINY_RESNET), "frozen": frozen}), 10)


@pytest.mark.slow
def test_fine_tuning_starts_from_a_run_and_changes_only_what_is_not_frozen(workplace):
    def train(*args):
        options = ["train", *TINY, "--epochs", "1", "--max-steps", "4", *args]
        return fork_trainer(*options, cwd=workplace, ranks=1, small=False)

    network = ("--model.builder", f"{BUILDERS}:good")
    runs = workplace / "runs"
    assert train("--name", "first", *network).returncode == 0
    (state,) = (runs / "first" / "checkpoints").glob(f"*/{STATE}")
    fine = ("--model.weights", str(state), "--model.frozen", "conv2d", "batch_norm")
    ended = train("--name", "second", *network, *fine)
    assert ended.returncode == 0, ended.stderr
    assert f"{state}: initial weights\n" in ended.stdout
    first, second = final_state(runs / "first"), final_state(runs / "second")
    same = {name for name in second if name.startswith("model/") and second[name] == first[name]}
    assert same == {name for name in first if name.startswith(("model/conv2d", "model/batch_norm"))}
    # It continues without the file.
    state.unlink()
    ended = train("--name", "second", *network, *fine, "--max-steps", "6")
    assert ended.returncode == 0, ended.stderr
    assert "initial weights" not in ended.stdout
    # If no checkpoint can be read it starts again, which it must not do from random weights.
    for damaged in (runs / "second" / "checkpoints").glob(f"*/{STATE}"):
        damaged.write_bytes(damaged.read_bytes()[:-1])
    ended = train("--name", "second", *network, *fine, "--max-steps", "6")
    assert ended.returncode == CheckpointError.exit_code
    assert f"--model.weights: {state} cannot be loaded" in ended.stderr


# 3. A file may come from others.

PLUGIN = """
#include <fstream>
__attribute__((constructor)) static void loaded() { std::ofstream("loaded"); }
"""

READ = """
import sys

sys.argv[1:2] and __import__("trainer.cli").cli.main([])
import h5py
try:
    h5py.File("filtered.h5")["kernel"][:]
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize(("args", "loaded"), [((), True), (("trainer",), False)])
def test_a_weights_file_cannot_make_the_trainer_load_a_library(tmp_path, args, loaded):
    (tmp_path / "plugin.cc").write_text(PLUGIN)
    compile_it = ["g++", "-shared", "-fPIC", "-o", "libplugin.so", "plugin.cc"]
    subprocess.run(compile_it, cwd=tmp_path, check=True)
    filtered = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    filtered.set_chunk((4,))
    filtered.set_filter(32768, h5py.h5z.FLAG_OPTIONAL, ())
    with h5py.File(tmp_path / "filtered.h5", "w") as file:
        shape = h5py.h5s.create_simple((4,))
        kernel = h5py.h5d.create(file.id, b"kernel", h5py.h5t.NATIVE_FLOAT, shape, filtered)
        kernel.write_direct_chunk((0,), np.zeros(4, np.float32).tobytes(), 0)
    # Another test of this process may have called the command.
    inherited = {name: os.environ[name] for name in os.environ if name != "HDF5_PLUGIN_PRELOAD"}
    told = subprocess.run(
        [sys.executable, "-c", READ, *args],
        cwd=tmp_path,
        env={**inherited, "PYTHONPATH": str(ROOT), "HDF5_PLUGIN_PATH": "."},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert ("filter plugins disabled" in told) is not loaded
    assert (tmp_path / "loaded").exists() is loaded
