"""The leaf of files that Keras 3 has written. Standard library only."""

from typing import Final

from trainer.leaf import Leaf

LEAF: Final = Leaf(weight_files="trainer.keras3.weights:weights_of_this_network")
