"""Quantization of an ONNX model to 8 bits, by ONNX Runtime's own tools.

Static, because the ranges of a convolution's inputs are then found once, from training images, and
not in each call. Operators stand between QuantizeLinear and DequantizeLinear, which every runtime
can read (QDQ). Inputs are uint8 and weights int8 of 7 bits, with a scale for each channel: CPUs
without VNNI add the products of two neighbours in 16 bits, where 8 bits could overflow.
"""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from trainer.export.saved_model import only_errors
from trainer.tasks.task import Array

BATCHES: Final = 8
"""Batches of training images from which ranges are found."""


class _Images(quantization.CalibrationDataReader):  # type: ignore[misc] # it has no types
    def __init__(self, batches: Iterator[Array]) -> None:
        self._batches = batches

    def get_next(self) -> dict[str, Array] | None:
        """Return the next inputs, or None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {"pixels": batch}


def quantize(source: Path, target: Path, pixels: Iterator[Array]) -> None:
    """Write a model in 8 bits.

    Args:
        source: ONNX model of the signature `pixels`.
        target: File to write.
        pixels: Batches of its inputs.
    """
    with tempfile.TemporaryDirectory() as scratch, only_errors(logging.root.name):
        prepared = Path(scratch) / "prepared.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(target),
            _Images(pixels),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            reduce_range=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
        )
