"""The network of a configuration, in words and for other programs. Standard library only."""

from trainer.config import ModelConfig
from trainer.networks import find_network

_RESNETS = {"resnet": "ResNet", "unet": "U-Net on ResNet"}
"""Networks that depth, width and stem belong to, in words."""


def describe(config: ModelConfig) -> str:
    """Describe a network in a few words."""
    if config.builder is not None:
        return config.builder
    name = str(find_network(config.network))
    if name == "dilated":
        return f"dilated convolutions of width {config.width}"
    kind = _RESNETS.get(name)
    return f"{kind}{config.depth} of width {config.width}" if kind else name


def facts(config: ModelConfig) -> dict[str, str | int]:
    """Return the options that decide a network's architecture."""
    if config.builder is not None:
        return {"builder": config.builder}
    name = str(find_network(config.network))
    network = {} if name == "resnet" else {"network": name}
    if name == "dilated":
        return {"network": name, "width": config.width}
    if name not in _RESNETS:
        return {"network": name}
    return {**network, "depth": config.depth, "width": config.width, "stem": config.stem}
