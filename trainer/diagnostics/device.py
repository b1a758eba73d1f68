"""The device and the cores that a rank computes with."""

import os
import sys

import tensorflow as tf

from common.errors import ConfigError
from trainer.config import TrainConfig
from trainer.diagnostics.environment import cores
from trainer.distributed.communicator import Communicator

PEAK_FLOPS: dict[str, dict[str, float]] = {
    "V100": {"mixed_float16": 125e12, "float32": 15.7e12},
    "A100": {"mixed_float16": 312e12, "float32": 156e12},
    "H100": {"mixed_float16": 989e12, "float32": 494e12},
    "T4": {"mixed_float16": 65e12, "float32": 8.1e12},
}
"""Peak FLOP/s by device and precision, without sparsity, from NVIDIA's data sheets (SXM).

For float32 the peak of TF32 where the device has it, because TensorFlow uses TF32 by default."""


def set_up_device(config: TrainConfig, communicator: Communicator) -> None:
    """Assign this rank its GPU, if the machine has any, and its share of the cores.

    Raises:
        ConfigError: The machine has GPUs, but fewer than ranks.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        # Some launchers make only its own GPU visible to each rank.
        isolated = len(gpus) == 1 and "CUDA_VISIBLE_DEVICES" in os.environ
        if communicator.local_size > len(gpus) and not isolated:
            raise ConfigError(
                [
                    f"--ranks: {communicator.local_size} ranks on this machine, which has"
                    f" {len(gpus)} GPUs; each rank needs a GPU of its own"
                ]
            )
        gpu = gpus[0 if isolated else communicator.local_rank]
        tf.config.set_visible_devices(gpu, "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
    elif config.compute.precision != "float32" and communicator.rank == 0:
        print(
            "warning: no GPU is visible (`make setup` installs TensorFlow for CPUs);"
            " mixed_float16 is slow without one",
            file=sys.stderr,
        )
    threads = config.compute.threads or share_of_cores(communicator)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Two, so that an operation that waits for another rank does not block the others.
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


def share_of_cores(communicator: Communicator) -> int:
    """Return the number of cores for each rank of this node, at least one."""
    return max(1, cores() // communicator.local_size)


def device_name() -> str:
    """Return the name of this rank's GPU, or an empty string on a CPU."""
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return ""
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""))


def cuda_build() -> dict[str, str] | None:
    """Return the versions of CUDA and cuDNN that TensorFlow was built with, or None for CPUs."""
    info = tf.sysconfig.get_build_info()
    if not info.get("is_cuda_build"):
        return None
    names = {"CUDA": "cuda_version", "cuDNN": "cudnn_version"}
    return {name: str(info[key]) for name, key in names.items() if key in info}


def peak_flops(name: str, precision: str) -> float | None:
    """Return the peak FLOP/s of a device, or None if it is not known."""
    return next((peaks[precision] for key, peaks in PEAK_FLOPS.items() if key in name), None)
