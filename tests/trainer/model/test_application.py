"""Networks of tf_keras.applications: their input, head, types and initial state."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tests.trainer.support.scenarios import NORMALIZATION, make_loop
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.snapshot import snapshot
from trainer.config import DataConfig, ModelConfig, TrainConfig
from trainer.distributed.communicator import Alone
from trainer.export.saved_model import save_model
from trainer.model.build import build_model
from trainer.model.flops import training_flops_per_image
from trainer.model.layers import all_layers
from trainer.model.weights import load_model, variables_by_name
from trainer.tasks.classification.task import Classification
from trainer.tasks.task import Serving

pytestmark = pytest.mark.slow


def networks(first, *others):
    """The first one, and others each night."""
    return [first, *(pytest.param(name, marks=pytest.mark.long) for name in others)]


TRIED = networks("MobileNet", "EfficientNetB0", "ConvNeXtTiny")
WITH_PREPROCESSING = networks(
    "EfficientNetB0", "EfficientNetV2B0", "ConvNeXtTiny", "MobileNetV3Small", "RegNetX002",
    "ResNetRS50",
)  # fmt: skip
"""One of each family that normalises images itself."""


@functools.cache
def build(name, precision="float32", seed=0):
    return build_model(ModelConfig(network=name, image_size=32), 10, precision, seed)


def batches():
    noise = np.random.default_rng(0)
    while True:
        yield {
            "image": tf.constant(noise.integers(0, 256, [4, 32, 32, 3]), tf.uint8),
            "target": tf.constant(noise.integers(0, 10, [4]), tf.int32),
            "weight": tf.ones([4]),
            "flip": tf.zeros([4], tf.bool),
        }


@pytest.fixture(scope="module", params=TRIED)
def trained(request, tmp_path_factory):
    """A network that has taken two steps, and its checkpoint."""
    config = TrainConfig(
        batch_size=4,
        data=DataConfig(source="synthetic"),
        model=ModelConfig(network=request.param, image_size=32, classes=10),
    )
    model = build_model(config.model, 10)
    before = snapshot(variables_by_name(model))
    spec = {key: tf.TensorSpec(value.shape, value.dtype) for key, value in next(batches()).items()}
    data = iter(tf.data.Dataset.from_generator(batches, output_signature=spec))
    loop, _ = make_loop(config, model, Alone(), lambda: next(data))
    report = loop.run([0.01] * 2, lambda _: None)
    loop.close()
    folder = CheckpointFolder(tmp_path_factory.mktemp("run") / "checkpoints")
    folder.save(2, snapshot(variables_by_name(model)), {"evaluation": None})
    found = folder.newest()
    assert found is not None
    return SimpleNamespace(config=config, model=model, before=before, report=report, found=found)


def test_steps_change_kernels_and_statistics(trained):
    assert trained.report.steps == 2
    assert np.isfinite(trained.report.loss)
    after = snapshot(variables_by_name(trained.model))
    same = [name for name, value in after.items() if np.array_equal(value, trained.before[name])]
    # A bias before a norm has no effect, and ConvNeXt's blocks begin with a scale of 1e-6.
    assert {name.rpartition("/")[2] for name in same} <= {"bias", "gamma"}


def test_a_checkpoint_restores_the_network_by_names(trained):
    again = load_model(trained.config, 10, "float32", trained.found.load(), trained.found.path)
    images = tf.random.stateless_normal([3, 32, 32, 3], [1, 2])
    expected = trained.model(images, training=False).numpy()
    np.testing.assert_array_equal(again(images, training=False).numpy(), expected)


def test_the_saved_model_gives_the_same_probabilities(trained, tmp_path):
    names = tuple("0123456789")
    serving = Serving(names, NORMALIZATION, 32, 1.0, 5)
    save_model(Classification(10), trained.model, tmp_path / "saved", serving)
    pixels = next(batches())["image"]
    exported = tf.saved_model.load(str(tmp_path / "saved"))
    found = exported.signatures["pixels"](pixels=pixels)["probabilities"].numpy()
    images = (tf.cast(pixels, tf.float32) - NORMALIZATION.mean) / NORMALIZATION.std
    expected = tf.nn.softmax(trained.model(images, training=False)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    networks("MobileNet", "EfficientNetB0", "ConvNeXtTiny", "MobileNetV3Small", "DenseNet121"),
)
def test_mixed_precision_keeps_float32_weights_and_logits(name):
    half, whole = build(name, "mixed_float16"), build(name)
    convolutions = [x for x in all_layers(half) if isinstance(x, keras.layers.Conv2D)]
    assert {layer.compute_dtype for layer in convolutions} == {"float16"}
    assert {variable.dtype for variable in half.variables} == {tf.float32}
    assert half(tf.zeros([1, 32, 32, 3]), training=False).dtype == tf.float32
    assert keras.mixed_precision.global_policy().name == "float32"
    pairs = zip(half.variables, whole.variables, strict=True)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in pairs)


@pytest.mark.parametrize("name", TRIED)
def test_the_seed_alone_decides_the_initial_weights(name):
    config = ModelConfig(network=name, image_size=32)
    one, other, third = build(name), build_model(config, 10), build_model(config, 10, seed=1)
    assert [v.name for v in one.variables] == [v.name for v in other.variables]
    kernels = 0
    for a, b, c in zip(one.variables, other.variables, third.variables, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())
        kernels += not np.array_equal(a.numpy(), c.numpy())
    assert kernels > 10


@pytest.mark.parametrize("name", WITH_PREPROCESSING)
def test_no_network_normalises_images_again(name):
    model = build(name)
    own = (keras.layers.Rescaling, keras.layers.Normalization)
    # Even without a class of its own: nothing stands between the input and the first convolution.
    assert not [layer.name for layer in all_layers(model) if isinstance(layer, own)]
    assert not [x.name for x in model.layers if "prestem" in x.name or "pre_stem" in x.name]
    first = next(layer for layer in model.layers[1:] if layer.weights)
    before = model.layers[1 : model.layers.index(first)]
    assert {type(layer) for layer in before} <= {keras.layers.ZeroPadding2D}


@pytest.mark.parametrize(
    "name", networks("MobileNet", "EfficientNetB0", "MobileNetV3Small", "DenseNet121")
)
def test_batch_norms_have_our_momentum(name):
    norms = [x for x in all_layers(build(name)) if isinstance(x, keras.layers.BatchNormalization)]
    assert {layer.momentum for layer in norms} == {0.9}


# Published multiply-adds at 224 pixels, in billions: the papers of each, with their own heads.
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("MobileNet", 0.569),
        pytest.param("EfficientNetB0", 0.39, marks=pytest.mark.long),
        pytest.param("MobileNetV2", 0.300, marks=pytest.mark.long),
        pytest.param("ConvNeXtTiny", 4.5, marks=pytest.mark.long),
    ],
)
def test_a_network_needs_the_published_number_of_operations(name, published):
    model = build_model(ModelConfig(network=name, image_size=224), 1000)
    assert training_flops_per_image(model) == pytest.approx(3 * 2 * published * 1e9, rel=0.03)
