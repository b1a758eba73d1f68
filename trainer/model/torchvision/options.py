"""Options of `ml-trainer weights`. Standard library only."""

from dataclasses import dataclass
from typing import Annotated

from common.annotations import Positional
from trainer.model.torchvision.published import ADDRESS


@dataclass(frozen=True)
class WeightsOptions:
    """Fetch published weights of a ResNet, check them, and write them as safetensors, which
    --model.weights and `ml-trainer fit --weights` take. Without a name, list what there is; nothing
    is fetched then. If it is interrupted, the same command continues.
    """

    name: Annotated[str, Positional("[NAME]")] = ""
    """Name of the network, such as resnet18."""

    folder: str = "weights"
    """Folder to write."""

    file: str | None = None
    """The published file, if you have fetched it elsewhere; nothing is fetched then."""

    address: str = ADDRESS
    """Folder to fetch from: that of the publisher, or a copy of it inside your network."""
