"""What a measurement was taken on, recorded beside its figures."""

import os
import platform
from importlib.metadata import version
from typing import Any

PACKAGES = ("tensorflow-cpu", "tf-keras", "horovod", "numpy")


def environment() -> dict[str, Any]:
    """Versions, processor, cores and load of this machine."""
    models = [
        line.split(":", 1)[1].strip()
        for line in open("/proc/cpuinfo", encoding="utf-8")  # noqa: PTH123, SIM115
        if line.startswith("model name")
    ]
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "processor": models[0] if models else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg(),
    }
