"""The device and the cores that a rank computes with."""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf

from common.errors import ConfigError
from common.text import plural
from trainer.config import TrainConfig
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Communicator

PEAK_FLOPS: Final = (
    # NVIDIA's data sheets of the cards.
    ("V100-PCIE", 112, None, 14.0),
    ("V100", 125, None, 15.7),
    ("T4", 65, None, 8.1),
    ("A10", 125, 125, 62.5),
    ("A100", 312, 312, 156),
    ("L4", 121, 121, 60),
    ("L40S", 362, 362, 183),
    ("H100 PCIe", 756, 756, 378),
    ("H100 NVL", 835, 835, 417),
    ("H100", 989, 989, 494),
    ("H200 NVL", 835, 835, 417),
    ("H200", 989, 989, 494),
    # NVIDIA's white papers of GA102, AD102 and RTX Blackwell: 16 bits added up in float32.
    ("RTX 3070", 40.6, 40.6, 20.3),
    ("RTX 3080", 59.5, 59.5, 29.8),
    ("RTX 3090", 71.2, 71.2, 35.6),
    ("RTX 4080", 97.5, 97.5, 48.7),
    ("RTX 4090", 165.2, 165.2, 82.6),
    ("RTX 5080", 112.6, 112.6, 56.3),
    ("RTX 5090", 209.5, 209.5, 104.8),
)
"""Peak TFLOP/s of GPUs in mixed_float16, mixed_bfloat16 and float32, without sparsity; the first
row that a device's name contains as whole words is its own. None if it lacks the precision.

For float32 the peak of TF32 where the device has it, because TensorFlow uses TF32 by default."""

_OTHER_GPU: Final = r"(?! (Ti|SUPER|D|Laptop|Max-Q))"
"""Words that make a name that of another GPU, with another peak."""


def set_up_device(config: TrainConfig, communicator: Communicator, devices: int = 1) -> None:
    """Assign this rank its GPUs, if the machine has any, and its share of the cores.

    Args:
        config: Precision and threads.
        communicator: World of ranks.
        devices: Devices of each rank. On a machine without GPUs they are parts of its CPU.

    Raises:
        ConfigError: The machine has GPUs, but fewer than its ranks need, or of a kind without the
            precision.
    """
    gpus, ranks = tf.config.list_physical_devices("GPU"), communicator.local_size
    if config.compute.deterministic:
        tf.config.experimental.enable_op_determinism()
    if gpus:
        # Some launchers make only its own GPUs visible to each rank.
        isolated = len(gpus) == devices and "CUDA_VISIBLE_DEVICES" in os.environ
        alone, backend = len(gpus) == devices == 1 and not isolated, communicator.backend
        # NCCL refuses two ranks on one GPU; Gloo, with which `make setup` builds Horovod, does not.
        shared = alone and backend is not None and "NCCL" not in backend.built
        if shared and ranks > 1 and communicator.rank == 0:
            print(f"note: {ranks} ranks share one GPU; see --ranks", file=sys.stderr)
        if ranks * devices > len(gpus) and not isolated and not shared:
            each = "a GPU of its own" if devices == 1 else f"{devices} GPUs of its own"
            raise ConfigError(
                [
                    f"--ranks: {plural(ranks, 'rank')} on this machine, which has"
                    f" {plural(len(gpus), 'GPU')}; each rank needs {each}"
                ]
            )
        first = 0 if isolated or shared else communicator.local_rank * devices
        mine = gpus[first : first + devices]
        tf.config.set_visible_devices(mine, "GPU")
        for gpu in mine:
            tf.config.experimental.set_memory_growth(gpu, True)
        if config.compute.precision == "mixed_bfloat16":
            _check_bfloat16(tf.config.experimental.get_device_details(mine[0]))
    elif config.compute.precision != "float32" and communicator.rank == 0:
        print(
            "warning: no GPU is visible (the first line of `make train` says for which processor"
            f" TensorFlow is installed); {config.compute.precision} is slow without one",
            file=sys.stderr,
        )
    if devices > 1 and not gpus:
        _divide_cpu(devices, tell=communicator.rank == 0)
    threads = _threads(config, communicator, on_gpu=bool(gpus))
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Two, so that an operation that waits for another rank does not block the others.
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


def _check_bfloat16(details: Mapping[str, Any]) -> None:
    """Check that a GPU has bfloat16, given its name and compute capability.

    Raises:
        ConfigError: It has not.
    """
    capability = details.get("compute_capability", (8, 0))
    if capability < (8, 0):
        raise ConfigError(
            [
                f"--compute.precision: {details.get('device_name', 'the GPU')} has compute"
                f" capability {'.'.join(map(str, capability))}, and bfloat16 needs 8.0, which GPUs"
                " have since the A100; use mixed_float16"
            ]
        )


def _divide_cpu(devices: int, *, tell: bool) -> None:
    """Have TensorFlow show the CPU as several devices."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * devices
    tf.config.set_logical_device_configuration(cpu, parts)
    if tell:
        print(
            f"note: no GPU is visible, so the {devices} devices of a rank are parts of its CPU,"
            " which share its cores and its memory: good for trying it out only",
            file=sys.stderr,
        )


def rank_devices(count: int) -> list[str]:
    """Return the names of this rank's devices, as `tf.device` takes them."""
    kind = "GPU" if tf.config.get_visible_devices("GPU") else "CPU"
    return [f"/device:{kind}:{number}" for number in range(count)]


def computing_threads(config: TrainConfig, communicator: Communicator) -> int | None:
    """Return the threads with which this rank computes, which the bits of its results depend on;
    None on a GPU, where they do not.
    """
    on_gpu = bool(tf.config.get_visible_devices("GPU"))
    return None if on_gpu else _threads(config, communicator, on_gpu=False)


def _threads(config: TrainConfig, communicator: Communicator, *, on_gpu: bool) -> int:
    asked = config.compute.threads if on_gpu else config.strategy.threads
    return asked or share_of_cores(communicator)


def share_of_cores(communicator: Communicator) -> int:
    """Return the number of cores for each rank of this node, at least one."""
    return max(1, cores() // communicator.local_size)


def device_name() -> str:
    """Return the name of this rank's GPUs, or an empty string on a CPU."""
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return ""
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""))


def device_places() -> list[str]:
    """Return what tells this rank's GPUs apart from the others of its node; empty on a CPU."""
    # A launcher that shows a rank only its own GPUs makes each the first one.
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [f"{shown}{gpu.name}" for gpu in tf.config.get_visible_devices("GPU")]


def peak_memory() -> int | None:
    """Return the most bytes of its first GPU that this rank has used at once; None on a CPU."""
    if not device_name():
        return None
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


def gpu_share(communicator: Communicator) -> float:
    """Return the part of its GPU that this rank has, which is less than 1 if ranks share it."""
    alone = len(tf.config.list_physical_devices("GPU")) == 1
    shown = "CUDA_VISIBLE_DEVICES" in os.environ
    shared = bool(device_name()) and alone and not shown
    return 1.0 / communicator.local_size if shared else 1.0


def cuda_build() -> dict[str, str] | None:
    """Return the versions of CUDA and cuDNN that TensorFlow was built with, or None for CPUs."""
    info = tf.sysconfig.get_build_info()
    if not info.get("is_cuda_build"):
        return None
    names = {"CUDA": "cuda_version", "cuDNN": "cudnn_version"}
    return {name: str(info[key]) for name, key in names.items() if key in info}


def peak_flops(name: str, precision: str) -> float | None:
    """Return the peak FLOP/s of a device, or None if it is not known."""
    for key, float16, bfloat16, float32 in PEAK_FLOPS:
        if re.search(rf"\b{key}\b{_OTHER_GPU}", name):
            peaks = {"mixed_float16": float16, "mixed_bfloat16": bfloat16, "float32": float32}
            peak = peaks[precision]
            return peak and peak * 1e12
    return None
