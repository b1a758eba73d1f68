"""The leaf of ONNX. Standard library only."""

from dataclasses import dataclass
from typing import Final

from trainer.leaf import Exporter, Leaf


@dataclass(frozen=True)
class OnnxOptions:
    """Whether to export as ONNX as well."""

    onnx: bool = False
    """Also write model.onnx, and compare its results with those of the SavedModel. Its input is
    decoded and cropped pixels, because ONNX has no portable way to decode images."""


LEAF: Final = Leaf(exporter=Exporter(OnnxOptions, "trainer.onnx.exporter:export"))
