"""The device and the cores that a rank computes with."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from common.errors import ConfigError
from common.text import plural
from trainer.config import TrainConfig
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Communicator

PEAK_FLOPS: dict[str, dict[str, float]] = {
    "V100": {"mixed_float16": 125e12, "float32": 15.7e12},
    "A100": {"mixed_float16": 312e12, "mixed_bfloat16": 312e12, "float32": 156e12},
    "H100": {"mixed_float16": 989e12, "mixed_bfloat16": 989e12, "float32": 494e12},
    "T4": {"mixed_float16": 65e12, "float32": 8.1e12},
}
"""Peak FLOP/s by device and precision, without sparsity, from NVIDIA's data sheets (SXM).

For float32 the peak of TF32 where the device has it, because TensorFlow uses TF32 by default."""


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
    asked = config.compute.threads if on_gpu else config.threads
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


def device_count() -> int:
    """Return the number of this rank's GPUs; 1 on a CPU."""
    return max(len(tf.config.get_visible_devices("GPU")), 1)


def cuda_build() -> dict[str, str] | None:
    """Return the versions of CUDA and cuDNN that TensorFlow was built with, or None for CPUs."""
    info = tf.sysconfig.get_build_info()
    if not info.get("is_cuda_build"):
        return None
    names = {"CUDA": "cuda_version", "cuDNN": "cudnn_version"}
    return {name: str(info[key]) for name, key in names.items() if key in info}


def peak_flops(name: str, precision: str) -> float | None:
    """Return the peak FLOP/s of a device, or None if it is not known."""
    return next((peaks.get(precision) for key, peaks in PEAK_FLOPS.items() if key in name), None)
