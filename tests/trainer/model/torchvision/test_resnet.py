"""Weights with torchvision's names compute the logits that torchvision's definition gives."""

import numpy as np
import pytest
import safetensors.numpy

from trainer.config import ModelConfig
from trainer.errors import CheckpointError
from trainer.model.build import build_model
from trainer.model.initial_weights import load_initial_weights

WIDTH, SIZE, CLASSES = 4, 40, 5
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


def state_dict(depth, classes=CLASSES):
    """Random tensors with the names and shapes of torchvision's resnet18 and resnet50, narrower."""
    rng, state, wide = np.random.default_rng(depth), {}, 1 if depth < 50 else 4

    def conv(name, norm, outputs, inputs, size):
        scale = (inputs * size * size) ** -0.5
        state[f"{name}.weight"] = rng.normal(0, scale, (outputs, inputs, size, size))
        state[f"{norm}.weight"] = rng.uniform(0.5, 1.5, outputs)
        state[f"{norm}.bias"] = rng.normal(0, 0.2, outputs)
        state[f"{norm}.running_mean"] = rng.normal(0, 0.2, outputs)
        state[f"{norm}.running_var"] = rng.uniform(0.5, 1.5, outputs)
        state[f"{norm}.num_batches_tracked"] = np.array(7)

    conv("conv1", "bn1", WIDTH, 3, 7)
    inputs = WIDTH
    for stage, blocks in enumerate(BLOCKS[depth], 1):
        inner = WIDTH * 2 ** (stage - 1)
        for block in range(blocks):
            prefix, sizes = f"layer{stage}.{block}", (3, 3) if wide == 1 else (1, 3, 1)
            if block == 0 and (stage > 1 or wide > 1):
                conv(f"{prefix}.downsample.0", f"{prefix}.downsample.1", inner * wide, inputs, 1)
            for number, size in enumerate(sizes, 1):
                outputs = inner * wide if number == len(sizes) else inner
                conv(f"{prefix}.conv{number}", f"{prefix}.bn{number}", outputs, inputs, size)
                inputs = outputs
    state["fc.weight"], state["fc.bias"] = (
        rng.normal(0, 0.1, (classes, inputs)),
        rng.normal(size=classes),
    )
    return {name: np.asarray(array, np.float32) for name, array in state.items()}


def forward(state, depth, x):
    """torchvision.models.resnet in evaluation, with NumPy: [b, 3, height, width] to logits."""

    def convolve(x, name, stride):
        weight = state[f"{name}.weight"].astype(np.float64)
        pad, size = weight.shape[2] // 2, weight.shape[2]
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
        return np.einsum("bihwyx,oiyx->bohw", windows[:, :, ::stride, ::stride], weight)

    def norm(x, name):
        gamma, beta, mean, var = (
            state[f"{name}.{part}"][:, None, None]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / np.sqrt(var + 1e-5) * gamma + beta

    def relu(x):
        return np.maximum(x, 0)

    x = relu(norm(convolve(x, "conv1", 2), "bn1"))
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5))
    for stage, blocks in enumerate(BLOCKS[depth], 1):
        for block in range(blocks):
            prefix, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            if depth < 50:
                y = relu(norm(convolve(x, f"{prefix}.conv1", stride), f"{prefix}.bn1"))
                y = norm(convolve(y, f"{prefix}.conv2", 1), f"{prefix}.bn2")
            else:
                y = relu(norm(convolve(x, f"{prefix}.conv1", 1), f"{prefix}.bn1"))
                y = relu(norm(convolve(y, f"{prefix}.conv2", stride), f"{prefix}.bn2"))
                y = norm(convolve(y, f"{prefix}.conv3", 1), f"{prefix}.bn3")
            if f"{prefix}.downsample.0.weight" in state:
                x = norm(convolve(x, f"{prefix}.downsample.0", stride), f"{prefix}.downsample.1")
            x = relu(x + y)
    return x.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]


def built(depth, classes=CLASSES):
    return build_model(ModelConfig(depth=depth, width=WIDTH, image_size=SIZE), classes)


def written(folder, state):
    file = folder / "resnet.safetensors"
    safetensors.numpy.save_file({n: np.ascontiguousarray(a) for n, a in state.items()}, file)
    return file


@pytest.mark.parametrize("depth", BLOCKS)
def test_the_logits_are_those_of_torchvisions_network(tmp_path, depth):
    state, model = state_dict(depth), built(depth)
    assert load_initial_weights(model, written(tmp_path, state)).endswith("initial weights")
    images = np.random.default_rng(0).normal(size=(2, SIZE, SIZE, 3)).astype(np.float32)
    logits = forward(state, depth, images.transpose(0, 3, 1, 2).astype(np.float64))
    assert np.abs(logits).max() > 0.1
    np.testing.assert_allclose(model(images, training=False), logits, rtol=1e-5, atol=1e-5)


def test_a_head_for_other_classes_keeps_its_own_weights(tmp_path):
    model = built(18, classes=7)
    told = load_initial_weights(model, written(tmp_path, state_dict(18)))
    assert told.endswith("; logits differs and keeps its own")
    without = {n: a for n, a in state_dict(18).items() if not n.startswith("fc.")}
    assert "keeps its own" in load_initial_weights(model, written(tmp_path, without))


@pytest.mark.long
def test_variants_and_other_depths_are_refused_by_the_tensor_that_differs(tmp_path):
    state = state_dict(18)
    attention = state | {"layer1.0.se.conv_reduce.weight": np.zeros((1, 4, 1, 1), np.float32)}
    with pytest.raises(CheckpointError, match=r"layer1\.0\.se\.conv_reduce\.weight has no place"):
        load_initial_weights(built(18), written(tmp_path, attention))
    del state["layer2.1.bn2.running_var"]
    with pytest.raises(CheckpointError, match=r"layer2\.1\.bn2\.running_var is missing"):
        load_initial_weights(built(18), written(tmp_path, state))
    with pytest.raises(CheckpointError, match="belongs to another network: conv"):
        load_initial_weights(built(50), written(tmp_path, state_dict(18)))
