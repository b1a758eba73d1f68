"""Virtual machine sizes: every GPU series for training, and CPU sizes for data preparation,
builds, endpoints and single machines.

Sources: the series of the table in Azure's reference architecture "Distributed training of deep
learning models" (NC, NDs, NCsv2, NCsv3, NDv2, ND A100 v4) and their successors with NVIDIA GPUs;
shapes, network cards and local disks from Azure's pages of each series (of
MicrosoftDocs/azure-compute-docs, read on 23 November 2026); retirements from "VM size series
retirements, capacity growth restrictions, and modernization guidance" (24 September 2026) and the
modernization guide for GPU workloads.

These pages are about virtual machines. Where Azure Machine Learning offers a size, and how much of
it, differs by region and subscription and changes often: `Settings.subscription` records it.
"""

from dataclasses import dataclass
from typing import Final, Literal

Status = Literal["deployable", "retired", "restricted"]
"""restricted: not retired yet, but closed to new subscriptions and to more quota."""


@dataclass(frozen=True)
class Size:
    """One size of virtual machine."""

    name: str
    series: str
    vcpus: int
    memory_gib: int
    gpus: int = 0
    gpu: str | None = None
    """Model of the GPU, with its memory."""
    infiniband: bool = False
    """Whether nodes reach each other by RDMA over InfiniBand."""
    low_priority: bool | None = None
    """Whether Azure offers spare capacity of this size, which it may pre-empt. None if that is not
    documented, so that only a deployment can show it."""
    status: Status = "deployable"
    since: str | None = None
    """Date when it was retired or restricted."""
    replacement: str | None = None
    """Size to use instead of one that is not deployable."""
    link: Literal["NVLink", "PCIe"] | None = None
    """How the GPUs of a node reach each other; None if it has one or none."""
    network_gbits: float | None = None
    """Bandwidth of the node's network card in Gbit/s, without InfiniBand."""
    disk_gib: int | None = None
    """Size of the local disk, which caches mounted data. None if it was not looked up."""


def _gone(
    series: str, gpu: str, since: str, *rows: tuple[str, int, int, int, str]
) -> tuple[Size, ...]:
    """Return the retired sizes of one series; an `r` in a size's name marks the one with
    InfiniBand.
    """
    return tuple(
        Size(
            name, series, vcpus, memory, gpus, gpu, infiniband="r" in name.split("_")[1],
            status="retired", since=since, replacement=replacement,
            link="PCIe" if gpus > 1 else None,
        )
        for name, vcpus, memory, gpus, replacement in rows
    )  # fmt: skip


_T4 = "NVIDIA T4 16 GB"
_A100 = "NVIDIA A100 80 GB"
_H100 = "NVIDIA H100 80 GB"
_H100_NVL = "NVIDIA H100 NVL 94 GB"
_H200 = "NVIDIA H200 141 GB"

GPU: Final = (
    *_gone(
        "NC", "NVIDIA K80 12 GB", "2023",
        ("Standard_NC6", 6, 56, 1, "Standard_NC4as_T4_v3"),
        ("Standard_NC12", 12, 112, 2, "Standard_NC16as_T4_v3"),
        ("Standard_NC24", 24, 224, 4, "Standard_NC64as_T4_v3"),
        ("Standard_NC24r", 24, 224, 4, "Standard_NC64as_T4_v3"),
    ),
    *_gone(
        "NDs", "NVIDIA P40 24 GB", "2023",
        ("Standard_ND6s", 6, 112, 1, "Standard_NC4as_T4_v3"),
        ("Standard_ND12s", 12, 224, 2, "Standard_NC16as_T4_v3"),
        ("Standard_ND24s", 24, 448, 4, "Standard_NC64as_T4_v3"),
        ("Standard_ND24rs", 24, 448, 4, "Standard_ND96amsr_A100_v4"),
    ),
    *_gone(
        "NCsv2", "NVIDIA P100 16 GB", "2023",
        ("Standard_NC6s_v2", 6, 112, 1, "Standard_NC24ads_A100_v4"),
        ("Standard_NC12s_v2", 12, 224, 2, "Standard_NC48ads_A100_v4"),
        ("Standard_NC24s_v2", 24, 448, 4, "Standard_NC96ads_A100_v4"),
        ("Standard_NC24rs_v2", 24, 448, 4, "Standard_NC96ads_A100_v4"),
    ),
    *_gone(
        "NCsv3", "NVIDIA V100 16 GB", "2025-09-30",
        ("Standard_NC6s_v3", 6, 112, 1, "Standard_NC40ads_H100_v5"),
        ("Standard_NC12s_v3", 12, 224, 2, "Standard_NC80adis_H100_v5"),
        ("Standard_NC24s_v3", 24, 448, 4, "Standard_NC80adis_H100_v5"),
        ("Standard_NC24rs_v3", 24, 448, 4, "Standard_NC80adis_H100_v5"),
    ),
    Size(
        "Standard_ND40rs_v2", "NDv2", 40, 672, 8, "NVIDIA V100 32 GB",
        infiniband=True, low_priority=True, link="NVLink", network_gbits=24, disk_gib=2948,
    ),
    Size(
        "Standard_ND96asr_v4", "ND A100 v4", 96, 900, 8, "NVIDIA A100 40 GB",
        infiniband=True, link="NVLink", network_gbits=24, disk_gib=6000,
    ),
    Size(
        "Standard_ND96amsr_A100_v4", "NDm A100 v4", 96, 1900, 8, _A100,
        infiniband=True, link="NVLink", network_gbits=24, disk_gib=6400,
    ),
    Size(
        "Standard_ND96isr_H100_v5", "ND H100 v5", 96, 1900, 8, _H100,
        infiniband=True, link="NVLink", network_gbits=80, disk_gib=1024,
    ),
    Size(
        "Standard_ND96isr_H200_v5", "ND H200 v5", 96, 1850, 8, _H200,
        infiniband=True, link="NVLink",
    ),
    Size(
        "Standard_NC4as_T4_v3", "NCasT4_v3", 4, 28, 1, _T4,
        network_gbits=8, disk_gib=176,
    ),
    Size(
        "Standard_NC8as_T4_v3", "NCasT4_v3", 8, 56, 1, _T4,
        network_gbits=8, disk_gib=352,
    ),
    Size(
        "Standard_NC16as_T4_v3", "NCasT4_v3", 16, 110, 1, _T4,
        network_gbits=8, disk_gib=352,
    ),
    Size(
        "Standard_NC64as_T4_v3", "NCasT4_v3", 64, 440, 4, _T4,
        link="PCIe", network_gbits=32, disk_gib=2816,
    ),
    Size(
        "Standard_NC24ads_A100_v4", "NC A100 v4", 24, 220, 1, _A100,
        network_gbits=20, disk_gib=64,
    ),
    Size(
        "Standard_NC48ads_A100_v4", "NC A100 v4", 48, 440, 2, _A100,
        link="PCIe", network_gbits=40, disk_gib=128,
    ),
    Size(
        "Standard_NC96ads_A100_v4", "NC A100 v4", 96, 880, 4, _A100,
        link="PCIe", network_gbits=80, disk_gib=256,
    ),
    Size(
        "Standard_NC40ads_H100_v5", "NCads H100 v5", 40, 320, 1, _H100_NVL,
        network_gbits=40, disk_gib=3576,
    ),
    Size(
        "Standard_NC80adis_H100_v5", "NCads H100 v5", 80, 640, 2, _H100_NVL,
        link="PCIe", network_gbits=80, disk_gib=7152,
    ),
)  # fmt: skip
"""Ordered as in the reference's table, then by what came later. AMD GPUs and Grace (Arm) hosts are
left out: the training image is built for CUDA on x86-64."""

_RESTRICTED = "July 2026"

CPU: Final = (
    Size("Standard_D4ads_v5", "Dadsv5", 4, 16),
    Size("Standard_D8ads_v5", "Dadsv5", 8, 32),
    Size("Standard_D16ads_v5", "Dadsv5", 16, 64),
    Size("Standard_D32ads_v5", "Dadsv5", 32, 128),
    Size("Standard_D4ds_v5", "Ddsv5", 4, 16),
    Size("Standard_D8ds_v5", "Ddsv5", 8, 32),
    Size("Standard_D16ds_v5", "Ddsv5", 16, 64),
    Size("Standard_D32ds_v5", "Ddsv5", 32, 128),
    *(
        Size(
            name, series, vcpus, memory,
            status="restricted", since=_RESTRICTED, replacement=replacement,
        )
        for name, series, vcpus, memory, replacement in (
            ("Standard_DS3_v2", "DSv2", 4, 14, "Standard_D4ads_v5"),
            ("Standard_D4s_v3", "Dsv3", 4, 16, "Standard_D4ads_v5"),
            ("Standard_D16s_v3", "Dsv3", 16, 64, "Standard_D16ads_v5"),
            ("Standard_F4s_v2", "Fsv2", 4, 8, "Standard_D4ads_v5"),
        )
    ),
)  # fmt: skip
"""Sizes with a local disk that new subscriptions may deploy, and those that most samples still name
although new subscriptions may not deploy them."""

OTHER: Final = (
    Size("Standard_D4as_v4", "Dasv4", 4, 16),
    Size("Standard_D2as_v5", "Dasv5", 2, 8),
    Size("Standard_D4as_v5", "Dasv5", 4, 16),
    Size("Standard_D2s_v5", "Dsv5", 2, 8),
    Size("Standard_D4s_v5", "Dsv5", 4, 16),
)
"""Sizes of machines that are not nodes of clusters. "Managed online endpoints SKU list" names
Standard_D4as_v4, with the quota standardDASv4Family, and "VM size series retirements and capacity
growth restrictions" (24 September 2026) no longer restricts any series of v4."""

RDMA_POOL_NODES: Final = 100
"""Maximum nodes in a cluster whose nodes communicate by RDMA (Azure Machine Learning, "Manage and
increase quotas", 27 January 2026)."""

BY_NAME: Final = {size.name: size for size in (*GPU, *CPU)}


def find(name: str) -> Size | None:
    """Return a size by its name, ignoring case as Azure does; None if the catalogue has none."""
    return next((size for size in BY_NAME.values() if size.name.lower() == name.lower()), None)


def deployable(*, gpu: bool) -> tuple[Size, ...]:
    """Return the sizes that new clusters may use."""
    return tuple(size for size in (GPU if gpu else CPU) if size.status == "deployable")
