"""Memory of the state of an optimizer on each rank, whole and divided over ranks."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, Final

from trainer.config import ModelConfig, Positive
from trainer.model.build import build_model
from trainer.updates.optimizer import OPTIMIZERS

NETWORKS: Final = ("resnet", "EfficientNetB7", "ConvNeXtBase", "ConvNeXtXLarge")
KINDS: Final = ("momentum", "adamw")


@dataclass(frozen=True)
class Options:
    """Table of the memory that an optimizer's state takes on a rank, by network. Calculated from
    the parameters of the networks as they are built; takes 4 GB of memory.
    """

    ranks: Annotated[tuple[int, ...], Positive] = (8, 64)
    """Numbers of ranks over which the state is divided."""


def run(options: Options) -> None:
    """Print the table."""
    header = ["network", "parameters", "optimizer", "whole"]
    header += [f"over {ranks} ranks" for ranks in options.ranks]
    lines = [header, ["---"] * len(header)]
    for network in NETWORKS:
        lines += rows(network, parameters(network), options.ranks)
    print("\n".join(f"| {' | '.join(line)} |" for line in lines))


def parameters(network: str) -> int:
    """Return the number of trained parameters of a network with ImageNet's 1,000 classes."""
    model = build_model(ModelConfig(network=network), 1000)
    return sum(prod(variable.shape) for variable in model.trainable_variables)


def rows(network: str, count: int, ranks: tuple[int, ...]) -> list[list[str]]:
    """Return a network's lines of the table.

    Args:
        network: Name of the network.
        count: Number of its trained parameters.
        ranks: Numbers of ranks over which the state is divided.
    """
    name = "ResNet50" if network == "resnet" else network
    lines = []
    for kind in KINDS:
        per_parameter = 4 * len(OPTIMIZERS[kind].groups)
        # Divided, a rank also keeps a copy of its part of the weights.
        divided = [-(-count // part) * (per_parameter + 4) for part in ranks]
        sizes = [f"{size / 1e6:,.0f} MB" for size in (count * per_parameter, *divided)]
        lines.append([name, f"{count / 1e6:.1f} million", kind, *sizes])
    return lines
