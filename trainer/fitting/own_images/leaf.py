"""The leaf of presets for own images. Standard library only."""

from typing import Final

from trainer.leaf import Leaf

ON_A_CPU: Final = ("own-images", "own-images-finetune")
"""From random weights, and from a file of weights."""

NAMES: Final = tuple(
    f"images-224{start}{machines}"
    for start in ("", "-finetune")
    for machines in ("", "-node", "-nodes")
)
"""From random weights or from a file of weights; for one GPU, one node, or several nodes."""

LEAF: Final = Leaf(
    presets={
        name: f"trainer.fitting.own_images.presets:{name.upper().replace('-', '_')}"
        for name in (*ON_A_CPU, *NAMES)
    }
)
