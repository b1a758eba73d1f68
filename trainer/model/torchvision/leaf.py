"""The leaf of weights in the names of torchvision and timm. Standard library only."""

from typing import Final

from common.program import Command
from trainer.leaf import Leaf

LEAF: Final = Leaf(
    commands=(
        Command(
            "weights",
            "train",
            "fetch published weights of a ResNet to start from, or list what there is",
            "trainer.model.torchvision.fetch:run",
            "trainer.model.torchvision.options:WeightsOptions",
        ),
    ),
)
