"""The network of a configuration, in words and for other programs. Standard library only."""

from trainer.config import ModelConfig
from trainer.networks import NETWORKS, find_network


def describe(config: ModelConfig) -> str:
    """Describe a network in a few words."""
    if config.builder is not None:
        return config.builder
    name = str(find_network(config.network))
    return NETWORKS[name].words.format(**(vars(config) | {"name": name}))


def facts(config: ModelConfig) -> dict[str, str | int]:
    """Return the options that decide a network's architecture."""
    if config.builder is not None:
        return {"builder": config.builder}
    name = str(find_network(config.network))
    options = {option: getattr(config, option) for option in NETWORKS[name].options}
    return options if name == "resnet" else {"network": name, **options}
