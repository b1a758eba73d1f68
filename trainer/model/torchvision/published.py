"""Published weights of ResNets, a row each. Standard library only.

Names, addresses and sizes are those of torchvision's documentation. A file's name carries the first
8 hexadecimal digits of its SHA-256, which is how torch.hub checks it too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ADDRESS: Final = "https://download.pytorch.org/models/"
"""Folder of the publisher."""
LICENCE: Final = (
    "BSD 3-Clause (torchvision); trained on ImageNet's images, whose terms are for non-commercial"
    " research"
)


@dataclass(frozen=True)
class Published:
    """A file of weights."""

    file: str
    """Its name, with the beginning of its SHA-256."""
    depth: int
    """Layers of the ResNet."""
    mb: float
    """Size in MiB, as torchvision states it."""
    top1: float
    """Top-1 on ImageNet at 224 pixels, in %, as torchvision states it."""

    @property
    def sha256(self) -> str:
        """The first 8 hexadecimal digits of the file's SHA-256."""
        return self.file.removesuffix(".pth").rpartition("-")[2]

    @property
    def stored(self) -> str:
        """Name under which the tensors are written."""
        return self.file.removesuffix(".pth") + ".safetensors"


PUBLISHED: Final[Mapping[str, Published]] = {
    "resnet18": Published("resnet18-f37072fd.pth", 18, 44.7, 69.76),
    "resnet34": Published("resnet34-b627a593.pth", 34, 83.3, 73.31),
    "resnet50": Published("resnet50-0676ba61.pth", 50, 97.8, 76.13),
    "resnet101": Published("resnet101-63fe2227.pth", 101, 170.5, 77.37),
    "resnet152": Published("resnet152-394f9c45.pth", 152, 230.4, 78.31),
}
"""Weights by the names of their networks: torchvision's IMAGENET1K_V1."""
