"""The presets for own images at 224 pixels."""

import pytest

from tests.trainer.support.random_configs import changed
from trainer.early_stop.leaf import ended
from trainer.fitting.own_images.leaf import NAMES
from trainer.presets import PRESETS, parse_train, preset_warnings, to_args
from trainer.training.plan import make_plan


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_ends_by_held_out_images_and_exports_the_best_weights(name):
    config = PRESETS[name]
    assert parse_train(to_args(config)) == config == parse_train(["--preset", name])
    assert (config.model.image_size, config.model.depth) == (224, 50)
    assert config.result_of == "best"
    worse = [0.5] + [0.4] * config.epochs
    assert ended(config, worse)
    assert not ended(config, worse[: config.epochs // 5])
    assert config.exchange.infiniband == name.endswith("-nodes")


def test_the_rate_follows_the_global_batch_and_is_smaller_for_fine_tuning():
    rates = {name: make_plan(PRESETS[name], 8, 100_000).schedule.peak for name in NAMES[1::3]}
    assert list(rates.values()) == pytest.approx([0.2, 0.02])


def test_fine_tuning_without_a_file_of_weights_is_warned_of():
    config = PRESETS["images-224-finetune"]
    (warning,) = preset_warnings(config, 1)
    assert warning.startswith("--model.weights: is missing, without which --preset images-224-fine")
    assert not preset_warnings(changed(config, {"model.weights": "a.safetensors"}), 1)
    assert not preset_warnings(PRESETS["images-224"], 1)
