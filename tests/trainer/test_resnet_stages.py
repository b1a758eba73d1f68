"""The stages of a ResNet by the names of its layers: which are frozen, and at which rate they
learn."""

import re

import pytest

from common.errors import ConfigError
from trainer.config import ModelConfig
from trainer.model.build import build_model
from trainer.model.layers import moving_statistics
from trainer.networks import BLOCKS, LAST, layer_factor, stage_of
from trainer.presets import parse_train
from trainer.updates.optimizer import parameters


@pytest.mark.parametrize("depth", [18, 34, 50])
def test_the_stage_of_every_layer_follows_from_its_name(depth):
    """The channels of a convolution tell its stage as well."""
    model = build_model(ModelConfig(depth=depth, width=2, stem="3x3", image_size=16), 3)
    stages = {}
    for layer in model.layers:
        if re.fullmatch(r"conv\d+", layer.name):
            stages[layer.name] = stage_of(layer.name, depth)
            if layer.kernel.shape[0] == 3 and layer.name != "conv0":
                assert layer.kernel.shape[-1] == 2 * 2 ** (stages[layer.name] - 1), layer.name
            assert stage_of(layer.name.replace("conv", "norm"), depth) == stages[layer.name]
    found = list(stages.values())
    assert found == sorted(found)
    wide = depth >= 50
    counts = [found.count(stage) for stage in range(LAST + 1)]
    assert counts == [1] + [
        (3 if wide else 2) * blocks + (wide or stage > 0)
        for stage, blocks in enumerate(BLOCKS[depth])
    ]
    assert stage_of("logits", depth) == stage_of("conv999", depth) == LAST + 1


def test_frozen_stages_are_neither_trained_nor_do_their_statistics_move():
    model = build_model(ModelConfig(depth=18, width=2, image_size=32, frozen_stages=2), 3)
    trained = {variable.name.split("/")[0] for variable in model.trainable_variables}
    assert {stage_of(name, 18) for name in trained} == {3, 4, LAST + 1}
    moved = {variable.name.split("/")[0] for variable in moving_statistics(model)}
    assert {stage_of(name, 18) for name in moved} == {3, 4}
    assert len(
        build_model(ModelConfig(depth=18, width=2, image_size=32), 3).trainable_variables
    ) > len(model.trainable_variables)


def test_the_rate_decays_from_stage_to_stage_and_multiplies_that_of_prefixes():
    config = parse_train(["--optimizer.layer-decay", "0.5", "--optimizer.rates", "conv0=0.1"])
    factor = layer_factor(config)
    names = ["logits/kernel", "conv52/kernel", "norm52/gamma", "conv0/kernel", "norm0/beta"]
    assert [factor(name) for name in names] == [1, 0.5, 0.5, 0.5**5, 0.5**5]
    model = build_model(config.model, 3)
    found = parameters(model.trainable_variables, config.optimizer.rates, factor)
    rates = {one.name: one.rate for one in found}
    assert rates["conv0/kernel"] == pytest.approx(0.1 * 0.5**5)
    assert rates["logits/bias"] == 1
    assert layer_factor(parse_train([]))("conv0/kernel") == 1


def test_networks_without_stages_refuse_them():
    for option, instead in (
        (["--model.frozen-stages", "1"], "--model.frozen with"),
        (["--optimizer.layer-decay", "0.7"], "--optimizer.rates with"),
    ):
        with pytest.raises(ConfigError, match=instead):
            parse_train(["--preset", "images", "--model.network", "EfficientNetB0", *option])
    assert (
        parse_train(["--preset", "images", "--model.frozen-stages", "4"]).model.frozen_stages == 4
    )
