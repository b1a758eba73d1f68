"""A node's /proc, /sys and /dev as far as the trainer reads them, in a folder."""

from pathlib import Path

MEMINFO = "MemTotal:       {total} kB\nMemFree:  1000 kB\nMemAvailable:   {free} kB\nHugePages: 0\n"

DRIVER = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 24 22:55:05 UTC 2024\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_node(root: Path, *, total: int = 1_000_000, free: int = 600_000) -> Path:
    """A node with memory, in kB, and nothing else."""
    write(root / "proc/meminfo", MEMINFO.format(total=total, free=free))
    return root


def add_port(
    root: Path,
    adapter: str,
    layer: str = "InfiniBand",
    state: str = "4: ACTIVE",
    rate: str = "100 Gb/sec (4X EDR)",
) -> None:
    port = root / "sys/class/infiniband" / adapter / "ports/1"
    for name, text in {"link_layer": layer, "state": state, "rate": rate}.items():
        write(port / name, text + "\n")


def add_devices(root: Path) -> None:
    write(root / "dev/infiniband/uverbs0", "")


def ndv2(root: Path) -> Path:
    """A node with a GPU's driver, InfiniBand, and Azure's accelerated networking."""
    make_node(root)
    add_port(root, "mlx5_ib0")
    add_port(root, "mlx5_an0", "Ethernet", rate="40 Gb/sec (4X QDR)")
    add_devices(root)
    write(root / "proc/driver/nvidia/version", DRIVER)
    (root / "dev/shm").mkdir()
    return root
