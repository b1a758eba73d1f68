"""The networks: sizes against published totals, and their initial state."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import tf_keras as keras

from trainer.config import ModelConfig
from trainer.model.flops import training_flops_per_image
from trainer.model.resnet import build_resnet
from trainer.updates.optimizer import is_kernel

pytestmark = pytest.mark.slow

TINY = ModelConfig(depth=18, width=4, stem="3x3", image_size=16)


@functools.cache
def resnet50():
    return build_resnet(ModelConfig(), classes=1000)


def parameters(variables):
    return sum(int(np.prod(variable.shape)) for variable in variables)


def weights(model):
    return [variable.numpy() for variable in model.variables]


def size_before_pool(config):
    return tuple(build_resnet(config, classes=10).get_layer("pool").input.shape[1:3])


def norms(model):
    return [each for each in model.layers if isinstance(each, keras.layers.BatchNormalization)]


def test_all_running_statistics_move_with_the_momentum_of_the_configuration():
    found = norms(build_resnet(replace(TINY, batch_norm_momentum=0.5), classes=10))
    assert {layer.momentum for layer in found} == {0.5}


# 1. Sizes.


def test_resnet50_has_the_published_number_of_parameters():
    assert parameters(resnet50().trainable_variables) == 25_557_032
    assert parameters(resnet50().non_trainable_variables) == 53_120
    assert {layer.momentum for layer in norms(resnet50())} == {0.9}


@pytest.mark.parametrize(
    ("depth", "published"),
    [
        (18, 11_689_512),
        pytest.param(34, 21_797_672, marks=pytest.mark.long),
        pytest.param(101, 44_549_160, marks=pytest.mark.long),
        pytest.param(152, 60_192_808, marks=pytest.mark.long),
    ],
)
def test_other_depths_have_the_published_number_of_parameters(depth, published):
    model = build_resnet(ModelConfig(depth=depth), classes=1000)
    assert parameters(model.trainable_variables) == published


def test_resnet50_needs_the_published_number_of_operations():
    # 4.09 billion multiply-adds forward (torchvision), two operations each; backward twice as many.
    assert training_flops_per_image(resnet50()) == pytest.approx(3 * 2 * 4.09e9, rel=0.01)


def test_every_stage_scales_with_the_width():
    narrow = build_resnet(ModelConfig(width=16, image_size=32), classes=10)
    assert narrow.get_layer("pool").output.shape[-1] == 16 * 8 * 4
    assert resnet50().get_layer("pool").output.shape[-1] == 64 * 8 * 4


@pytest.mark.parametrize(
    ("stem", "image_size", "output"),
    [
        ("7x7", 224, 7),
        ("7x7", 32, 1),
        ("7x7", 8, 1),
        ("3x3", 32, 4),
        ("3x3", 16, 2),
        ("3x3", 8, 1),
    ],
)
def test_stem_and_image_size_decide_the_size_that_is_pooled(stem, image_size, output):
    config = ModelConfig(depth=18, width=4, stem=stem, image_size=image_size)
    assert size_before_pool(config) == (output, output)


@pytest.mark.parametrize(("image_size", "output"), [(15, 2), (16, 2), (17, 3)])
def test_both_branches_of_a_block_fit_at_odd_and_even_sizes(image_size, output):
    config = ModelConfig(depth=50, width=4, stem="3x3", image_size=image_size)
    assert size_before_pool(config) == (output, output)


def test_a_bottleneck_strides_in_its_3x3_convolution():
    strided = [
        layer.kernel_size[0]
        for layer in resnet50().layers
        if isinstance(layer, keras.layers.Conv2D) and layer.strides == (2, 2)
    ]
    # The stem, and in three stages the 3x3 of the first block and the 1x1 of its shortcut.
    assert sorted(strided) == [1, 1, 1, 3, 3, 3, 7]


# 2. Types.


@pytest.mark.parametrize("precision", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_logits_are_float32(precision):
    model = build_resnet(TINY, classes=10, precision=precision)
    image = np.zeros([2, 16, 16, 3], np.float32)
    assert model(image, training=False).dtype.name == "float32"


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_mixed_precision_convolves_in_half_precision_with_float32_weights(half):
    model = build_resnet(TINY, classes=10, precision=f"mixed_{half}")
    convolutions = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    assert {layer.compute_dtype for layer in convolutions} == {half}
    assert {variable.dtype.name for variable in model.variables} == {"float32"}


# 3. The initial state.


@pytest.mark.parametrize(("depth", "blocks"), [(18, 8), (34, 16), (50, 16)])
def test_the_last_scale_of_each_block_is_zero(depth, blocks):
    config = ModelConfig(depth=depth, width=4, stem="3x3", image_size=16)
    model = build_resnet(config, classes=10)
    zeros = [
        layer
        for layer in model.layers
        if isinstance(layer, keras.layers.BatchNormalization) and not layer.gamma.numpy().any()
    ]
    sums = [layer for layer in model.layers if isinstance(layer, keras.layers.Add)]
    # Keras lists the layers that a sum adds; the second one is the block's own branch.
    branches = [layer.input[1].node.layer for layer in sums]
    assert len(sums) == blocks
    assert {layer.name for layer in zeros} == {layer.name for layer in branches}


def test_all_other_scales_are_one():
    model = build_resnet(TINY, classes=10)
    norms = [x for x in model.layers if isinstance(x, keras.layers.BatchNormalization)]
    scales = {float(value) for layer in norms for value in layer.gamma.numpy()}
    assert scales == {0.0, 1.0}


def test_convolutions_start_with_hes_deviation():
    kernel = resnet50().get_layer("conv4").kernel.numpy()
    fan_in = np.prod(kernel.shape[:3])
    assert kernel.std() == pytest.approx(np.sqrt(2 / fan_in), rel=0.03)


def test_names_and_weights_follow_from_the_seed_alone():
    first = build_resnet(TINY, 10, seed=3)
    for again in (build_resnet(TINY, 10, seed=3), build_resnet(TINY, 10, "mixed_float16", seed=3)):
        assert [v.name for v in again.variables] == [v.name for v in first.variables]
        assert all(map(np.array_equal, weights(again), weights(first)))
    other = build_resnet(TINY, 10, seed=4).trainable_variables
    kernels = [
        (a, b) for a, b in zip(first.trainable_variables, other, strict=True) if is_kernel(a)
    ]
    assert not any(np.array_equal(a.numpy(), b.numpy()) for a, b in kernels)


def test_kernels_of_one_shape_start_differently():
    kernels = [v.numpy() for v in build_resnet(TINY, 10).trainable_variables if is_kernel(v)]
    assert len({kernel.tobytes() for kernel in kernels}) == len(kernels)


# 4. Weight decay.


def test_weight_decay_touches_kernels_only():
    decayed = {v.name.split("/")[1] for v in resnet50().trainable_variables if is_kernel(v)}
    others = {v.name.split("/")[1] for v in resnet50().trainable_variables if not is_kernel(v)}
    assert decayed == {"kernel:0"}
    assert others == {"gamma:0", "beta:0", "bias:0"}
