"""The leaf of presets for own images at 224 pixels. Standard library only."""

from typing import Final

from trainer.leaf import Leaf

NAMES: Final = tuple(
    f"images-224{start}{machines}"
    for start in ("", "-finetune")
    for machines in ("", "-node", "-nodes")
)
"""From random weights or from a file of weights; for one GPU, one node, or several nodes."""

LEAF: Final = Leaf(
    presets={name: f"trainer.own_images.presets:{name.upper().replace('-', '_')}" for name in NAMES}
)
