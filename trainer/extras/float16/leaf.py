"""The leaf of weights in float16. Standard library only."""

from dataclasses import dataclass
from typing import Final, Literal

from trainer.leaf import Exporter, Leaf


@dataclass(frozen=True)
class Float16Options:
    """Whether to store the weights in half the size as well."""

    precision: Literal["float32", "float16"] = "float32"
    """float16: also write saved_model_float16/, whose kernels are stored as float16 and computed
    with as float32, which every device can. It is refused if it loses accuracy; see
    --max-accuracy-loss."""


LEAF: Final = Leaf(exporter=Exporter(Float16Options, "trainer.extras.float16.exporter:export"))
