"""Virtual machine sizes: every GPU series to train on, and CPU sizes to prepare and build with.

Source: Azure's pages of size series and its lists of retired and End-of-Life sizes (24 September
2026). Those lists are about virtual machines; Azure Machine Learning keeps quotas of its own and
may offer less, which `Settings.subscription.sizes` records.
"""

from dataclasses import dataclass
from typing import Final, Literal

Status = Literal["deployable", "retired"]


@dataclass(frozen=True)
class Size:
    """One size of virtual machine."""

    name: str
    series: str
    vcpus: int
    memory_gib: int
    gpus: int = 0
    gpu: str | None = None
    """Model of the GPU."""
    infiniband: bool = False
    """Whether nodes reach each other by RDMA."""
    low_priority: bool = True
    """Whether Azure lends spare capacity of it, which it may take back."""
    status: Status = "deployable"
    retired: str | None = None
    """Since when, as a date; none while it is deployable."""
    replacement: str | None = None
    """Name of the size to take instead of a retired one."""
    regions: frozenset[str] | None = None
    """Where it is offered; none where that is not known."""


def _retired(
    name: str, series: str, shape: tuple[int, int, int], gpu: str, since: str, replacement: str
) -> Size:
    vcpus, memory, gpus = shape
    rdma = name.removeprefix("Standard_N").partition("_")[0].endswith("rs")
    return Size(
        name, series, vcpus, memory, gpus, gpu, rdma,
        status="retired", retired=since, replacement=replacement,
    )  # fmt: skip


GPU: Final = (
    Size("Standard_ND40rs_v2", "NDv2", 40, 672, 8, "NVIDIA V100 32 GB (NVLink)", infiniband=True),
    Size("Standard_ND96asr_v4", "ND A100 v4", 96, 900, 8, "NVIDIA A100 40 GB", infiniband=True),
)

CPU: Final = (
    Size("Standard_D4ads_v5", "Dadsv5", 4, 16),
    Size("Standard_D8ads_v5", "Dadsv5", 8, 32),
    Size("Standard_D16ads_v5", "Dadsv5", 16, 64),
    Size("Standard_D32ads_v5", "Dadsv5", 32, 128),
    Size("Standard_D4ds_v5", "Ddsv5", 4, 16),
    Size("Standard_D8ds_v5", "Ddsv5", 8, 32),
    Size("Standard_D16ds_v5", "Ddsv5", 16, 64),
    Size("Standard_D32ds_v5", "Ddsv5", 32, 128),
)

RDMA_POOL_NODES: Final = 100
"""Most nodes of a cluster whose nodes talk by RDMA (Azure Machine Learning, "Manage quotas")."""

BY_NAME: Final = {size.name: size for size in (*GPU, *CPU)}


def find(name: str) -> Size | None:
    """A size by its name in any case, as Azure takes it; none when it is not in the catalogue."""
    return next((size for size in BY_NAME.values() if size.name.lower() == name.lower()), None)


def deployable(*, gpu: bool) -> tuple[Size, ...]:
    """Sizes that a cluster may still be made of."""
    return tuple(size for size in (GPU if gpu else CPU) if size.status == "deployable")
