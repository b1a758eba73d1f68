"""Operations of single layers, counted by hand."""

import pytest
import tf_keras as keras

from trainer.model.flops import training_flops_per_image

layers = keras.layers


@pytest.mark.parametrize(
    ("layer", "shape", "multiplications"),
    [
        (layers.Conv2D(5, 3, padding="same"), (8, 8, 4), 8 * 8 * 5 * 3 * 3 * 4),
        (layers.Conv2D(4, 3, strides=2, padding="same", groups=2), (8, 8, 4), 4 * 4 * 4 * 9 * 2),
        (layers.Conv2DTranspose(5, 2, strides=2), (8, 8, 4), 8 * 8 * 5 * 2 * 2 * 4),
        (layers.DepthwiseConv2D(3, padding="same"), (8, 8, 4), 8 * 8 * 9 * 4),
        (layers.SeparableConv2D(5, 3, padding="same"), (8, 8, 4), 8 * 8 * (9 * 4 + 4 * 5)),
        (layers.Dense(7), (11,), 77),
        (layers.Dense(7), (6, 11), 6 * 77),
        (layers.EinsumDense("abc,cde->abde", (None, 3, 4)), (6, 11), 6 * 11 * 3 * 4),
        (layers.EinsumDense("...x,xy->...y", 7), (11,), 77),
        (layers.ReLU(), (8, 8, 4), 0),
    ],
)
def test_a_layer_counts_two_operations_forward_and_four_backward(layer, shape, multiplications):
    image = keras.Input(shape)
    assert training_flops_per_image(keras.Model(image, layer(image))) == 6 * multiplications


def test_layers_inside_of_others_count():
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(5)])
    image = keras.Input((3,))
    assert training_flops_per_image(keras.Model(image, inner(image))) == 6 * 15
