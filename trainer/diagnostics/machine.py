"""What a process may use of its machine: memory, disks, the driver of its GPUs. Standard library
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
    """Bytes of memory, and how many of them are free; of the container, if it has a limit.

    What the kernel would give back for the asking, such as its copies of files, counts as free;
    what it does not tell is 0.
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
    """Limit and use of each control group that this process is in, version 1 or 2."""
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
        # In a container the path may be the host's, of which its own is the top.
        group = top / below.lstrip("/")
        for folder in (group, *(p for p in group.parents if p.is_relative_to(top))):
            limit, used = (_read(folder / name).strip() for name in names[:2])
            if limit.isdigit() and used.isdigit():
                cached = re.search(
                    rf"^{names[2]} (\d+)", _read(folder / "memory.stat"), re.MULTILINE
                )
                yield int(limit), int(used) - (int(cached[1]) if cached else 0)


def free_disk(folder: Path) -> int | None:
    """Bytes that this user may still write; of a folder that is not there, where it would be; none
    if the file system does not tell.
    """
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        return shutil.disk_usage(there).free
    except OSError:
        return None


def free_scratch() -> int | None:
    """Bytes that this user may still write of temporary files; none without a place for any."""
    try:
        return free_disk(Path(tempfile.gettempdir()))
    except OSError:
        return None


def shared_memory(root: Path = Path("/")) -> int | None:
    """Bytes of /dev/shm, which is small in a container unless asked for; none if there is none."""
    try:
        return shutil.disk_usage(root / "dev/shm").total
    except OSError:
        return None


def locked_memory() -> int | None:
    """Bytes that a process may keep in place (ulimit -l); none for no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if limit == resource.RLIM_INFINITY else limit


def driver(root: Path = Path("/")) -> str:
    """Version of NVIDIA's driver; empty if the kernel or the container does not show it."""
    match = _DRIVER.search(_read(root / "proc/driver/nvidia/version"))
    return match[1] if match else ""


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
