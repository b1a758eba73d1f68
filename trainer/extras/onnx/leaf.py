"""The leaf of ONNX. Standard library only."""

from dataclasses import dataclass
from typing import Final

from trainer.leaf import Exporter, Leaf


@dataclass(frozen=True)
class OnnxOptions:
    """In which forms to export as ONNX as well."""

    onnx: bool = False
    """Also write model.onnx, and compare its results with those of the SavedModel. Its input is
    decoded and cropped pixels, because ONNX has no portable way to decode images."""

    int8: bool = False
    """Also write model-int8.onnx, quantized by ONNX Runtime with ranges from training images. It is
    refused if it loses accuracy; see --max-accuracy-loss."""


LEAF: Final = Leaf(exporter=Exporter(OnnxOptions, "trainer.extras.onnx.exporter:export"))
