"""The resources of its machine that a process may use: memory, disks, GPU driver. Standard library
only.
"""

import re
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_MEMORY = re.compile(r"^(Mem\w+): +(\d+) kB", re.MULTILINE)
_DRIVER = re.compile(r"^NVRM version:.*?\s(\d+\.\d+[.\d]*)\s", re.MULTILINE)


def memory(root: Path = Path("/")) -> tuple[int, int]:
    """Return the total and the free bytes of memory; those of the container, if it has a limit.

    Memory that the kernel can reclaim, such as its page cache, counts as free. A value that the
    kernel does not report is 0.
    """
    meminfo = _read(root / "proc/meminfo")
    kilobytes = {name: int(number) for name, number in _MEMORY.findall(meminfo)}
    total = kilobytes.get("MemTotal", 0) * 1024
    free = kilobytes.get("MemAvailable", kilobytes.get("MemFree", 0)) * 1024
    for limit, used in _limits(root):
        total = min(total, limit)
        free = min(free, max(limit - used, 0))
    return total, free


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use of each control group of this process, version 1 or 2."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, below = line.split(":", 2)
        if not controllers:
            top = root / "sys/fs/cgroup"
            names = "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        # In a container the path may be that of the host; the container sees only the top of it.
        group = top / below.lstrip("/")
        for folder in (group, *(p for p in group.parents if p.is_relative_to(top))):
            limit, used = (_read(folder / name).strip() for name in names[:2])
            if limit.isdigit() and used.isdigit():
                cached = re.search(
                    rf"^{names[2]} (\d+)", _read(folder / "memory.stat"), re.MULTILINE
                )
                yield int(limit), int(used) - (int(cached[1]) if cached else 0)


def free_disk(folder: Path) -> int | None:
    """Return the bytes that this user may still write to a folder, which need not exist yet; None
    if the file system does not report it.
    """
    try:
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        return shutil.disk_usage(existing).free
    except OSError:
        return None


def free_scratch() -> int | None:
    """Return the bytes that this user may still write to temporary files; None without a place."""
    try:
        return free_disk(Path(tempfile.gettempdir()))
    except OSError:
        return None


def shared_memory(root: Path) -> int | None:
    """Return the size of /dev/shm in bytes, by default small in a container; None without one."""
    try:
        return shutil.disk_usage(root / "dev/shm").total
    except OSError:
        return None


def locked_memory() -> int | None:
    """Return the bytes that a process may lock in memory (ulimit -l); None without a limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if limit == resource.RLIM_INFINITY else limit


def driver(root: Path) -> str:
    """Return the version of NVIDIA's driver; empty if the kernel or the container hides it."""
    match = _DRIVER.search(_read(root / "proc/driver/nvidia/version"))
    return match[1] if match else ""


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
