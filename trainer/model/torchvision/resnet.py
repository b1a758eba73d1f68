"""ResNets of torchvision, whose names timm uses as well, in the names of this project's ResNet.

Both are ResNet v1.5, with the stride in the 3x3 convolution, the same padding and the same epsilon,
so that the weights of one compute the logits of the other.
"""

import re
from collections.abc import Iterator, Mapping

from trainer.checkpoints.format import Array, Tensors

_NORM = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}
_IGNORED = "num_batches_tracked"
"""A count of steps, which this project's network does not have."""


def arrays_of_this_network(tensors: Mapping[str, Array]) -> Tensors | None:
    """Return tensors by the names of `trainer.model.resnet`'s variables.

    Args:
        tensors: Tensors of a file by name: convolutions [out, in, height, width], matrices
            [out, in].

    Returns:
        Convolutions as [height, width, in, out] and matrices as [in, out]; None if the names are
        not those of a ResNet.

    Raises:
        ValueError: The names are nearly those, and a tensor is left over or missing, as in variants
            with other stems or attention; names it.
    """
    left = {name: array for name, array in tensors.items() if not name.endswith(_IGNORED)}
    if not {"conv1.weight", "layer1.0.conv1.weight"} <= left.keys():
        return None
    arrays: Tensors = {}
    try:
        for number, (conv, norm) in enumerate(_pairs(left)):
            arrays[f"conv{number}/kernel"] = left.pop(f"{conv}.weight").transpose(2, 3, 1, 0)
            for theirs, ours in _NORM.items():
                arrays[f"norm{number}/{ours}"] = left.pop(f"{norm}.{theirs}")
        if "fc.weight" in left:
            arrays["logits/kernel"] = left.pop("fc.weight").transpose()
            arrays["logits/bias"] = left.pop("fc.bias")
    except KeyError as error:
        raise ValueError(
            f"it is not a plain ResNet of torchvision: {error.args[0]} is missing"
        ) from None
    if left:
        raise ValueError(
            f"it is not a plain ResNet of torchvision: {min(left)} has no place in one"
        )
    return arrays


def _pairs(names: Mapping[str, Array]) -> Iterator[tuple[str, str]]:
    """Yield each convolution and its batch norm in the order in which this project's network makes
    them: block by block, the shortcut last.
    """
    yield "conv1", "bn1"
    blocks = {
        (int(stage), int(block))
        for stage, block in re.findall(r"layer(\d)\.(\d+)\.conv1\.", "\n".join(names))
    }
    for stage, block in sorted(blocks):
        prefix = f"layer{stage}.{block}"
        inner = sum(name.startswith(f"{prefix}.conv") for name in names)
        yield from ((f"{prefix}.conv{i}", f"{prefix}.bn{i}") for i in range(1, inner + 1))
        if f"{prefix}.downsample.0.weight" in names:
            yield f"{prefix}.downsample.0", f"{prefix}.downsample.1"
