"""The networks that a configuration can name.

Standard library only: a configuration is checked before TensorFlow is loaded, also on the side that
submits jobs. To add a network, write `build(config, outputs, precision, seed) -> keras.Model` in a
file of its own in `trainer/model/`, and add it to `NETWORKS`; a leaf brings its own.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Final

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
    """List what is wrong with the choice of a network, with the options to change.

    Args:
        name: Name of a network.
        builder: Own network as package.module:function, or None.
        image_size: Height and width of the input, in pixels.
        per: What the task needs logits for, such as image or pixel.
    """
    found = find_network(name)
    if found is None:
        close = difflib.get_close_matches(_plain(name), map(_plain, NETWORKS), n=1)
        meant = f"; did you mean {find_network(close[0])}?" if close else ""
        return [f"--model.network: {name!r} is not a network{meant}; known: {', '.join(NETWORKS)}"]
    if builder is None and NETWORKS[found].per != per:
        fitting = ", ".join(name for name, network in NETWORKS.items() if network.per == per)
        return [
            f"--model.network: {found} does not fit the task, which needs an output per {per};"
            f" choose one of {fitting}, or a --model.builder"
        ]
    if builder is None:
        smallest = NETWORKS[found].smallest
        if image_size < smallest:
            return [
                f"--model.image-size: {image_size} is too small for --model.network {found}, which"
                f" needs at least {smallest}"
            ]
        return []
    problems = []
    if not _BUILDER.fullmatch(builder):
        problems.append(
            f"--model.builder: {builder!r} must be package.module:function, such as"
            " mymodels.small:build"
        )
    if found != "resnet":
        problems.append(
            f"--model.network: {name} contradicts --model.builder {builder}; leave one of them out"
        )
    return problems


def _plain(name: str) -> str:
    return re.sub(r"[-_. ]", "", name).lower()
