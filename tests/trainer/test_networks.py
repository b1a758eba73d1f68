"""Names of networks, before TensorFlow is loaded."""

import pytest
import tf_keras as keras

from common.errors import ConfigError
from tests.trainer.support.random_configs import changed
from trainer import networks
from trainer.config import ModelConfig
from trainer.model.description import describe, facts
from trainer.presets import PRESETS, parse_train, to_args


def problems(**model):
    with pytest.raises(ConfigError) as caught:
        changed(PRESETS["digits"], {f"model.{key}": value for key, value in model.items()})
    return caught.value.problems


def test_the_names_are_those_of_tf_keras_applications():
    there = {name for name in dir(keras.applications) if name[0].isupper()}
    assert set(networks.APPLICATIONS) == there
    assert {"resnet"} | there <= set(networks.NETWORKS)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("EfficientNetB0", "EfficientNetB0"),
        ("efficientnet-b0", "EfficientNetB0"),
        ("mobilenet_v3_small", "MobileNetV3Small"),
        ("convnext-tiny", "ConvNeXtTiny"),
        ("resnet", "resnet"),
        ("ResNet50", "ResNet50"),
    ],
)
def test_a_name_is_found_in_any_spelling(spelling, name):
    assert networks.find_network(spelling) == name


def test_two_networks_never_share_a_spelling():
    assert all(networks.find_network(name) == name for name in networks.NETWORKS)


def test_an_unknown_name_is_refused_with_all_names():
    (problem,) = problems(network="EfficientNetB9")
    assert problem.startswith("--model.network: 'EfficientNetB9' is not a network; did you mean")
    assert all(name in problem for name in networks.NETWORKS)


def test_an_image_size_below_the_networks_smallest_is_refused():
    (problem,) = problems(network="inceptionv3", image_size=74)
    assert problem.startswith("--model.image-size: 74 is too small")
    assert "at least 75" in problem


@pytest.mark.parametrize(
    "text", ["", "mymodels", "mymodels.small", "a:b:c", "my-models:build", "a/b:c"]
)
def test_a_builder_that_is_not_module_and_function_is_refused(text):
    (problem,) = problems(builder=text)
    assert "must be package.module:function" in problem


@pytest.mark.parametrize("preset", PRESETS)
def test_a_builder_is_in_place_of_the_network_of_a_preset(preset):
    for given in (["--model.builder", "mine:build"], ["--model.builder=mine:build"]):
        config = parse_train(["--preset", preset, *given])
        assert (config.model.builder, config.preset) == ("mine:build", preset)
        assert parse_train(to_args(config)) == config
    assert parse_train([]) == PRESETS["digits"]
    with pytest.raises(ConfigError, match=r"contradicts --model\.builder mine:build; leave one"):
        parse_train(["--preset", preset, *given, "--model.network", "VGG16"])


def test_a_builder_and_a_network_contradict_each_other():
    (problem,) = problems(builder="mine:build", network="VGG16", image_size=32)
    assert "contradicts --model.builder mine:build" in problem


def test_empty_texts_are_refused():
    assert len(problems(frozen=("conv", ""), weights="")) == 2


def test_the_command_line_takes_several_frozen_layers():
    config = parse_train(["--model.frozen", "conv1", "norm", "--epochs", "3"])
    assert (config.model.frozen, config.epochs) == (("conv1", "norm"), 3)


def test_a_description_names_the_network():
    assert describe(ModelConfig()) == "ResNet50 of width 64"
    assert describe(ModelConfig(network="vgg-16")) == "VGG16"
    assert describe(ModelConfig(builder="mine:build")) == "mine:build"
    assert facts(ModelConfig(depth=18)) == {"depth": 18, "width": 64, "stem": "7x7"}
    assert facts(ModelConfig(network="vgg16")) == {"network": "VGG16"}
    assert facts(ModelConfig(builder="mine:build")) == {"builder": "mine:build"}
