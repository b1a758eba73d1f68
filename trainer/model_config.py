"""The network and the optimizer, as plain data. Standard library only."""

from dataclasses import dataclass
from typing import Annotated, Literal

from common.annotations import Bounds

Positive = Bounds(at_least=1)
NotNegative = Bounds(at_least=0)


@dataclass(frozen=True)
class ModelConfig:
    """The network, its initial weights, and which parts of it are trained."""

    network: str = "resnet"
    """resnet: ResNet v1.5 (the stride of a bottleneck in its 3x3 convolution); or a network of
    tf_keras.applications by its name there, such as EfficientNetB0, with an average pool and one
    dense layer for the data set's classes. Other tasks than classification have networks of their
    own, which an unknown name lists."""

    depth: Literal[18, 34, 50, 101, 152] = 50
    """Layers with weights of a ResNet; 50 and more use bottleneck blocks."""

    width: Annotated[int, Positive] = 64
    """Channels of the first stage of a ResNet, with which all stages scale; ResNet50's is 64. Of
    networks without stages, channels of all layers."""

    stem: Literal["7x7", "3x3"] = "7x7"
    """Stem of a ResNet. 7x7: stride 2 and a max-pool, for large images; 3x3: stride 1
    without a pool, for small ones."""

    builder: str | None = None
    """Your own network in place of `network`, as package.module:function. The function takes
    image_size and outputs, and returns a tf_keras model from images [b, size, size, 3] to float32
    logits [b, outputs], or of the shape of another task. Jobs take the Python files of the package
    with them."""

    weights: str | None = None
    """File of initial weights, on the nodes of a job: state.safetensors of a checkpoint,
    safetensors of another project's ResNet, or the .h5 of a network of tf_keras.applications. The
    last layer keeps its initial weights if it differs in shape or is missing. A run that is resumed
    does not read it."""

    frozen: tuple[str, ...] = ()
    """Beginnings of the names of layers that are not trained. Their batch norms normalise with
    their moving statistics, and do not change these."""

    frozen_stages: Annotated[int, Bounds(at_least=0, at_most=4)] = 0
    """Stages of a ResNet that are not trained, like `frozen`: its stem and this many of the four
    stages that follow; 0 trains all of it. Ranks exchange no gradients of them."""

    image_size: Annotated[int, Bounds(at_least=8)] = 224
    """Height and width of the input, in pixels."""

    classes: Annotated[int | None, Bounds(at_least=2)] = None
    """Outputs; None takes the number from the data set's manifest (synthetic: 1000)."""

    batch_norm_momentum: Annotated[float, Bounds(at_least=0, below=1)] = 0.9
    """Fraction of batch norm's running statistics that a step keeps. A run of few steps needs a
    smaller one, or the statistics that evaluation uses lag behind the weights."""


@dataclass(frozen=True)
class OptimizerConfig:
    """The update of the weights, and its learning rate."""

    kind: Literal["momentum", "lars", "adamw"] = "momentum"
    """momentum: SGD; lars: SGD whose rate is scaled for each kernel, for global batches of
    thousands of images (You et al. 2017); adamw: Adam with decoupled weight decay (Loshchilov and
    Hutter 2019), whose usual rates are about 0.001 without scaling."""

    learning_rate: Annotated[float, Bounds(above=0)] = 0.1
    """Peak rate; see `rate_scaling`."""

    rate_scaling: Literal["linear", "none"] = "linear"
    """linear: the rate is per 256 images of global batch, so the peak is learning_rate x global
    batch / 256 (Goyal et al. 2017); none: the peak is learning_rate, whatever the batch."""

    warmup_epochs: Annotated[float, NotNegative] = 5.0
    """Epochs in which the rate rises linearly to its peak (Goyal et al. 2017: 5)."""

    schedule: Literal["cosine", "step", "polynomial"] = "cosine"
    """After the warm-up: one half cosine to zero, a factor at each of `decay_epochs`, or a
    parabola to `end_rate`."""

    end_rate: Annotated[float, NotNegative] = 0.0001
    """Rate at which `polynomial` ends, never scaled (MLPerf: 0.0001)."""

    decay_epochs: Annotated[tuple[float, ...], NotNegative] = (30.0, 60.0, 80.0)
    """Epochs at which `step` multiplies the rate by `decay_factor`."""

    decay_factor: Annotated[float, Bounds(above=0, below=1)] = 0.1
    """What `step` multiplies the rate by."""

    momentum: Annotated[float, Bounds(at_least=0, below=1)] = 0.9
    """Fraction of the velocity that momentum and lars keep from step to step."""

    nesterov: bool = False
    """Look ahead by one step of momentum; for the kind momentum only."""

    weight_decay: Annotated[float, NotNegative] = 1e-4
    """This times w is added to the gradient of kernels, but not of biases or batch norm. With adamw
    it is added to the update instead, and is multiplied by the learning rate alone."""

    trust: Annotated[float, Bounds(above=0)] = 0.001
    """Length of an update of lars before the rate, as a fraction of the kernel's norm."""

    beta1: Annotated[float, Bounds(at_least=0, below=1)] = 0.9
    """Fraction of the mean gradient that adamw keeps from step to step."""

    beta2: Annotated[float, Bounds(at_least=0, below=1)] = 0.999
    """Fraction of the mean squared gradient that adamw keeps from step to step."""

    epsilon: Annotated[float, Bounds(above=0)] = 1e-8
    """What adamw adds to the root of the mean squared gradient, which it divides by."""

    rates: tuple[str, ...] = ()
    """Factors of the rate for parts of the network, each as PREFIX=FACTOR: of all layers whose
    names begin with the prefix; the longest prefix counts. For fine-tuning, such as conv=0.1."""

    layer_decay: Annotated[float, Bounds(above=0, at_most=1)] = 1.0
    """Factor of the rate from each stage of a ResNet to the one before it (Howard and Ruder 2018),
    for fine-tuning: the last layer has the full rate, the last of four stages this factor, and the
    stem its fifth power. It multiplies the factors of `rates`; 1 is the same rate everywhere."""

    label_smoothing: Annotated[float, Bounds(at_least=0, below=1)] = 0.1
    """Fraction of the target that is spread evenly over all classes (Szegedy et al. 2015: 0.1)."""

    accumulation: Annotated[int, Positive] = 1
    """Micro-batches into which a rank's batch is divided, to fit into memory; they are computed one
    after the other, with one exchange and update per step. Batch norm sees micro-batches."""


def parse_rate(text: str) -> tuple[str, float]:
    """Return the prefix and the factor of an item of `OptimizerConfig.rates`.

    Raises:
        ValueError: The text is not PREFIX=FACTOR with a factor of at least 0; says so.
    """
    prefix, _, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not prefix or not 0.0 <= value < float("inf"):
        raise ValueError(f"{text!r} must be PREFIX=FACTOR, such as conv=0.1, with a factor from 0")
    return prefix, value


def rate_problems(rates: tuple[str, ...]) -> list[str]:
    """List the faults of `OptimizerConfig.rates`, with the option to change."""
    problems = []
    for text in rates:
        try:
            parse_rate(text)
        except ValueError as error:
            problems.append(f"--optimizer.rates: {error}")
    prefixes = [text.rpartition("=")[0] for text in rates]
    if len(set(prefixes)) < len(prefixes):
        problems.append("--optimizer.rates: a prefix has two factors; leave one of them out")
    return problems
