"""The leaf of weights in the names of torchvision and timm. Standard library only."""

from typing import Final

from trainer.leaf import Leaf

LEAF: Final = Leaf(foreign_weights="trainer.torchvision.resnet:arrays_of_this_network")
