"""The stages of a ResNet: its blocks, and the stage of each layer by its name. Standard library
only.
"""

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

from trainer.networks import NETWORKS, find_network

BLOCKS: Final = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
"""Blocks of each stage, by depth."""
BOTTLENECK_FROM: Final = 50
"""Smallest depth whose blocks are bottlenecks of three convolutions."""
LAST: Final = 4
"""The last stage. The stem is 0; what follows the stages, such as the last layer, is `LAST` + 1."""

_NUMBERED: Final = re.compile(r"(?:conv|norm)(\d+)(?:/.*)?")


def stage_of(name: str, depth: int) -> int:
    """Return the stage of a layer of a ResNet, or of a network whose encoder is one.

    Convolutions are numbered from the input, block by block, the shortcut last; each has a batch
    norm of the same number.

    Args:
        name: Name of the layer, or of one of its variables.
        depth: Depth of the ResNet.
    """
    found = _NUMBERED.fullmatch(name)
    if found is None:
        return LAST + 1
    inner = 3 if depth >= BOTTLENECK_FROM else 2
    # Only the first stage of a network without bottlenecks begins without a new shortcut.
    sizes = [
        inner * blocks + (1 if stage or inner == 3 else 0)
        for stage, blocks in enumerate(BLOCKS[depth])
    ]
    return sum(int(found[1]) >= end for end in accumulate([1, *sizes]))


def layer_factor(config: Any) -> Callable[[str], float]:
    """Return a function from the name of a variable to the factor of its learning rate, by
    `OptimizerConfig.layer_decay`, given a `TrainConfig`.
    """
    decay, depth = config.optimizer.layer_decay, config.model.depth
    return lambda name: 1.0 if decay == 1 else decay ** (LAST + 1 - stage_of(name, depth))


def stage_problems(config: Any) -> list[str]:
    """List the options of a `TrainConfig` that need stages, if its network has none."""
    model = config.model
    network = None if model.builder is not None else find_network(model.network)
    if network is not None and "depth" in NETWORKS[network].options:
        return []
    asked = {
        "--model.frozen-stages": model.frozen_stages > 0,
        "--optimizer.layer-decay": config.optimizer.layer_decay != 1,
    }
    instead = {
        "--model.frozen-stages": "--model.frozen",
        "--optimizer.layer-decay": "--optimizer.rates",
    }
    return [
        f"{flag}: is for the stages of a ResNet, which this network does not have; use"
        f" {instead[flag]} with the names of its layers"
        for flag, wanted in asked.items()
        if wanted
    ]
