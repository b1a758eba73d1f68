"""Files in the layout of Keras 3, which is not installed here.

Its own ResNet50, with random weights in both kinds of file, was compared once by hand: the logits
were the same but for rounding.
"""

import io
import json
import zipfile

import h5py
import numpy as np
import pytest
import tf_keras as keras

from trainer.errors import CheckpointError
from trainer.keras3.weights import snake_case
from trainer.model.initial_weights import load_initial_weights

RNG = np.random.default_rng(0)


def network(outputs=3, convolutions=("first", "second")):
    """Two convolutions of equal shape, whose order therefore decides the logits."""
    image = keras.Input((6, 6, 3))
    x = image
    for name in convolutions:
        x = keras.layers.Conv2D(3, 3, padding="same", use_bias=False, name=name)(x)
        x = keras.layers.BatchNormalization(name=f"{name}_bn")(x)
        x = keras.layers.ReLU()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, keras.layers.Dense(outputs, name="logits")(x))


def randomised(model):
    for variable in model.variables:
        variable.assign(RNG.uniform(0.5, 1.5, variable.shape))
    return model


def write_layers(group, layers):
    """Write layers as Keras 3 does, numbered by class; those without variables as well."""
    numbers = {}
    for layer in layers:
        kind = snake_case(type(layer).__name__)
        number = numbers[kind] = numbers.get(kind, -1) + 1
        one = group.create_group(f"layers/{kind}_{number}" if number else f"layers/{kind}")
        if isinstance(layer, keras.Model):
            write_layers(one, layer.layers)
        variables = one.create_group("vars")
        for place, weight in enumerate(layer.get_weights()):
            if not isinstance(layer, keras.Model):
                variables[str(place)] = weight


def write_weights(path, layers):
    with h5py.File(path, "w") as file:
        file.create_group("vars")
        write_layers(file, layers)
    return path


def write_keras(path, model, names):
    content = io.BytesIO()
    write_weights(content, model.layers)
    layers = [
        {"class_name": type(layer).__name__, "config": {"name": name}}
        for layer, name in zip(model.layers, names, strict=True)
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.weights.h5", content.getvalue())
        archive.writestr("config.json", json.dumps({"config": {"layers": layers}}))
    return path


IMAGES = RNG.normal(size=(2, 6, 6, 3)).astype(np.float32)


def same_logits(model, other):
    np.testing.assert_allclose(model(IMAGES), other(IMAGES), rtol=1e-5)


def test_layers_without_names_are_paired_in_their_order_within_a_class(tmp_path):
    theirs, ours = randomised(network()), network()
    file = write_weights(tmp_path / "a.weights.h5", theirs.layers)
    assert load_initial_weights(ours, file) == f"{file}: initial weights"
    same_logits(ours, theirs)


def test_more_than_ten_layers_of_a_class_are_in_the_order_of_their_numbers(tmp_path):
    names = [f"c{number}" for number in range(12)]
    theirs, ours = randomised(network(3, names)), network(3, names)
    load_initial_weights(ours, write_weights(tmp_path / "a.weights.h5", theirs.layers))
    same_logits(ours, theirs)


def test_names_decide_if_the_file_has_them_in_another_order(tmp_path):
    theirs, ours = randomised(network(3, ("second", "first"))), network(3, ("first", "second"))
    names = [layer.name for layer in theirs.layers]
    load_initial_weights(ours, write_keras(tmp_path / "a.keras", theirs, names))
    for name in ("first", "second", "logits"):
        for mine, given in zip(
            ours.get_layer(name).get_weights(), theirs.get_layer(name).get_weights(), strict=True
        ):
            np.testing.assert_array_equal(mine, given)


def test_names_of_another_project_leave_the_order(tmp_path):
    theirs, ours = randomised(network()), network()
    names = [f"x{number}" for number, _ in enumerate(theirs.layers)]
    load_initial_weights(ours, write_keras(tmp_path / "a.keras", theirs, names))
    same_logits(ours, theirs)


def test_a_network_inside_another_and_another_head_is_read_and_said(tmp_path):
    body = randomised(keras.Model((whole := network()).input, whole.layers[-2].output))
    theirs = keras.Sequential([body, keras.layers.Dense(7), keras.layers.Dense(9)])
    ours = network(5)
    before = ours.get_layer("logits").get_weights()
    file = write_weights(tmp_path / "a.weights.h5", theirs.layers)
    assert load_initial_weights(ours, file) == (
        f"{file}: initial weights; logits differs and keeps its own; without a place in the"
        " network: dense/0, dense/1, dense_1/0 and 1 more"
    )
    same_logits(keras.Model(ours.input, ours.layers[-2].output), body)
    for mine, kept in zip(ours.get_layer("logits").get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, kept)


def test_files_of_other_networks_are_refused(tmp_path):
    three = write_weights(tmp_path / "a.weights.h5", network(3, ("a", "b", "c")).layers)
    with pytest.raises(CheckpointError, match="3 layers of the kind batch_normalization"):
        load_initial_weights(network(), three)
    (tmp_path / "b.keras").write_bytes(b"no archive")
    with pytest.raises(CheckpointError, match=r"b.keras cannot be loaded: it is no archive"):
        load_initial_weights(network(), tmp_path / "b.keras")
