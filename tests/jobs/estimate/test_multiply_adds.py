"""The multiply-adds of the networks that can be predicted follow from their layers."""

import pytest

from jobs.planning.scaling import RESNETS

BLOCKS = {"ResNet-50": (3, 4, 6, 3), "ResNet-101": (3, 4, 23, 3), "ResNet-152": (3, 8, 36, 3)}


def multiply_adds(blocks):
    """Of a ResNet v1.5 at 224 pixels: convolutions and the last layer, as He et al. count."""
    total, channels, side = 112 * 112 * 7 * 7 * 3 * 64, 64, 56
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            inside, side = side, side // stride
            total += inside * inside * channels * width
            total += side * side * 9 * width * width
            total += side * side * width * 4 * width
            if not block:
                total += side * side * channels * 4 * width
            channels = 4 * width
    return total + channels * 1000


@pytest.mark.parametrize("model", RESNETS)
def test_multiply_adds_are_those_of_the_layers(model):
    assert RESNETS[model] == pytest.approx(multiply_adds(BLOCKS[model]) / 1e9, rel=0.01)
