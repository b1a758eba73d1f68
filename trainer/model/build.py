"""Building of a configuration's network."""

import tf_keras as keras

from common.errors import ConfigError
from common.program import load
from trainer.config import ModelConfig
from trainer.leaves import TASKS
from trainer.model.layers import freeze
from trainer.model.own_builder import build_own
from trainer.model.randomness import use_keys
from trainer.networks import NETWORKS, find_network, stage_of


def build_model(
    config: ModelConfig,
    outputs: int,
    precision: str = "float32",
    seed: int = 0,
    task: str = "classification",
    *,
    trial: bool = True,
) -> keras.Model:
    """Build the network of a configuration. Equal arguments build equal networks.

    Args:
        config: Which network, and which of its layers are frozen.
        outputs: Number of outputs.
        precision: Dtype policy of the layers, as in `ComputeConfig`; weights are float32.
        seed: Seed of the initial weights.
        task: Task whose logits an own network must have.
        trial: Whether an own network takes a training step and evaluates three images first.

    Returns:
        A model from normalised images [b, size, size, 3] to the float32 logits of the task, for
        classification [b, outputs]. Its layers draw random numbers only inside
        `trainer.model.randomness.randomness`.

    Raises:
        ConfigError: The configuration's own builder is at fault, or `frozen` names no layer.
    """
    if config.builder is not None:
        shape = TASKS[task].logits(config.image_size, outputs)
        model = build_own(config, outputs, shape, precision, seed, trial=trial)
    else:
        build = load(NETWORKS[str(find_network(config.network))].builder)
        model = build(config, outputs, precision, seed)
        use_keys(model)
    still = config.frozen_stages or -1
    try:
        freeze(model, config.frozen, lambda name: stage_of(name, config.depth) <= still)
    except ValueError as error:
        raise ConfigError([f"--model.frozen: {error}"]) from error
    return model
