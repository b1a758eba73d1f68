"""The environment of a run or a measurement, recorded with its figures. Standard library only."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trainer import __version__

PACKAGES = ("tensorflow-cpu", "tensorflow", "tf-keras", "horovod", "numpy", "nvidia-nccl-cu12")
"""Distributions whose versions matter; TensorFlow without GPU support is tensorflow-cpu."""


def environment(gpus: Sequence[str] = ()) -> dict[str, Any]:
    """Return versions, CPU, cores and load of this machine; nothing that identifies its owner.

    Args:
        gpus: Name of each rank's GPU; an empty string for a rank without one.
    """
    facts: dict[str, Any] = {
        "trainer": __version__,
        "python": platform.python_version(),
        **{name: number for name in PACKAGES if (number := _version(name))},
        "system": _system(),
        "processor": _cpu(),
        "cores": cores(),
        "load_average": os.getloadavg(),
    }
    if any(gpus):
        facts["gpus"] = [name for name in gpus if name]
    return facts


def set_defaults_of_tensorflow() -> None:
    """Set environment variables that TensorFlow reads when it is imported, unless they are set."""
    # TensorFlow's start-up notes would bury the run's own output; warnings and errors still appear.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Otherwise importing TensorFlow also imports Keras 3, unused, which takes a third of the time.
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    # A weights file can name a filter, for which HDF5 loads libraries from a folder of others
    # (CVE-2026-2492). "::" forbids plugins; HDF5_PLUGIN_PATH=disable only names another folder.
    os.environ.setdefault("HDF5_PLUGIN_PRELOAD", "::")


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, kernel {platform.release()}, {platform.machine()}"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
