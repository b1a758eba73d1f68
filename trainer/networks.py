"""The networks that a configuration can name.

Standard library only: a configuration is checked before TensorFlow is loaded, also on the side that
submits jobs. To add a network, write `build(config, outputs, precision, seed) -> keras.Model` in a
file of its own in `trainer/model/`, and add it to `NETWORKS`; a leaf brings its own.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Final

from trainer.leaves import LEAVES
from trainer.task_descriptions import Network

APPLICATIONS: Final = (
    *("ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtSmall", "ConvNeXtTiny", "ConvNeXtXLarge"),
    *("DenseNet121", "DenseNet169", "DenseNet201"),
    *("EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3"),
    *("EfficientNetB4", "EfficientNetB5", "EfficientNetB6", "EfficientNetB7"),
    *("EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3"),
    *("EfficientNetV2L", "EfficientNetV2M", "EfficientNetV2S"),
    *("InceptionResNetV2", "InceptionV3"),
    *("MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small"),
    *("NASNetLarge", "NASNetMobile"),
    *("RegNetX002", "RegNetX004", "RegNetX006", "RegNetX008", "RegNetX016", "RegNetX032"),
    *("RegNetX040", "RegNetX064", "RegNetX080", "RegNetX120", "RegNetX160", "RegNetX320"),
    *("RegNetY002", "RegNetY004", "RegNetY006", "RegNetY008", "RegNetY016", "RegNetY032"),
    *("RegNetY040", "RegNetY064", "RegNetY080", "RegNetY120", "RegNetY160", "RegNetY320"),
    *("ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2", "ResNet50", "ResNet50V2"),
    *("ResNetRS101", "ResNetRS152", "ResNetRS200", "ResNetRS270", "ResNetRS350"),
    *("ResNetRS420", "ResNetRS50", "VGG16", "VGG19", "Xception"),
)
"""Networks of tf_keras.applications, by their names there."""

_SMALLEST = {"InceptionResNetV2": 75, "InceptionV3": 75, "Xception": 71}
"""Smallest image sizes, in pixels, of the applications that do not accept 32."""

NETWORKS: Final[Mapping[str, Network]] = {
    "resnet": Network(
        "trainer.model.resnet:build_resnet",
        8,
        words="ResNet{depth} of width {width}",
        options=("depth", "width", "stem"),
    ),
    **{name: network for leaf in LEAVES for name, network in leaf.networks.items()},
    **{
        name: Network("trainer.model.application:build_application", _SMALLEST.get(name, 32))
        for name in APPLICATIONS
    },
}
"""All networks by name."""

_BUILDER = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def find_network(name: str) -> str | None:
    """Return the name of a network in `NETWORKS`, whatever its case, hyphens, dots and underscores;
    None if there is none.
    """
    names = {_plain(known): known for known in NETWORKS}
    return names.get(_plain(name))


def network_problems(name: str, builder: str | None, image_size: int, per: str) -> list[str]:
    """List the faults of the choice of a network, with the options to change.

    Args:
        name: Name of a network.
        builder: Own network as package.module:function, or None.
        image_size: Height and width of the input, in pixels.
        per: The unit that the task needs logits for, such as image or pixel.
    """
    known = find_network(name)
    if known is None:
        close = difflib.get_close_matches(_plain(name), map(_plain, NETWORKS), n=1)
        meant = f"; did you mean {find_network(close[0])}?" if close else ""
        return [f"--model.network: {name!r} is not a network{meant}; known: {', '.join(NETWORKS)}"]
    if builder is None and NETWORKS[known].per != per:
        fitting = ", ".join(name for name, network in NETWORKS.items() if network.per == per)
        return [
            f"--model.network: {known} does not fit the task, which needs an output per {per};"
            f" choose one of {fitting}, or a --model.builder"
        ]
    if builder is None:
        smallest = NETWORKS[known].smallest
        if image_size < smallest:
            return [
                f"--model.image-size: {image_size} is too small for --model.network {known}, which"
                f" needs at least {smallest}"
            ]
        return []
    problems = []
    if not _BUILDER.fullmatch(builder):
        problems.append(
            f"--model.builder: {builder!r} must be package.module:function, such as"
            " mymodels.small:build"
        )
    if known != "resnet":
        problems.append(
            f"--model.network: {name} contradicts --model.builder {builder}; leave one of them out"
        )
    return problems


def _plain(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()


BLOCKS: Final = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
"""Blocks of each stage, by depth."""
BOTTLENECK_FROM: Final = 50
"""Smallest depth whose blocks are bottlenecks of three convolutions."""
LAST: Final = 4
"""The last stage. The stem is 0; what follows the stages, such as the last layer, is `LAST` + 1."""

_NUMBERED: Final = re.compile(r"(?:conv|norm)(\d+)(?:/.*)?")


def stage_of(name: str, depth: int) -> int:
    """Return the stage of a layer of a ResNet, or of a network whose encoder is one.

    Convolutions are numbered from the input, block by block, the shortcut last; each has a batch
    norm of the same number.

    Args:
        name: Name of the layer, or of one of its variables.
        depth: Depth of the ResNet.
    """
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return LAST + 1
    inner = 3 if depth >= BOTTLENECK_FROM else 2
    # Only the first stage of a network without bottlenecks begins without a new shortcut.
    sizes = [
        inner * blocks + (1 if stage or inner == 3 else 0)
        for stage, blocks in enumerate(BLOCKS[depth])
    ]
    return sum(int(match[1]) >= end for end in accumulate([1, *sizes]))


def layer_factor(config: Any) -> Callable[[str], float]:
    """Return a function from the name of a variable to the factor of its learning rate, by
    `OptimizerConfig.layer_decay`, given a `TrainConfig`.
    """
    decay, depth = config.optimizer.layer_decay, config.model.depth
    return lambda name: 1.0 if decay == 1 else decay ** (LAST + 1 - stage_of(name, depth))


def stage_problems(config: Any) -> list[str]:
    """List the options of a `TrainConfig` that need stages, if its network has none."""
    model = config.model
    network = None if model.builder is not None else find_network(model.network)
    if network is not None and "depth" in NETWORKS[network].options:
        return []
    asked = {
        "--model.frozen-stages": model.frozen_stages > 0,
        "--optimizer.layer-decay": config.optimizer.layer_decay != 1,
    }
    instead = {
        "--model.frozen-stages": "--model.frozen",
        "--optimizer.layer-decay": "--optimizer.rates",
    }
    return [
        f"{flag}: is for the stages of a ResNet, which this network does not have; use"
        f" {instead[flag]} with the names of its layers"
        for flag, wanted in asked.items()
        if wanted
    ]
