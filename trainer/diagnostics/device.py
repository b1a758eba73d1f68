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
"""Peak operations a second by device and precision, without sparsity: NVIDIA's data sheets (SXM).

For float32 that of TF32 where the device has it, as TensorFlow uses it unless told otherwise."""


def set_up_device(config: TrainConfig, communicator: Communicator) -> None:
    """Give this rank its GPU, if there are any, and its share of the cores.

    Raises:
        ConfigError: there are GPUs, but fewer than ranks on this machine.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        # Some launchers show each rank its own GPU and no other.
        isolated = len(gpus) == 1 and "CUDA_VISIBLE_DEVICES" in os.environ
        if communicator.local_size > len(gpus) and not isolated:
            raise ConfigError(
                [
                    f"--ranks: {communicator.local_size} ranks on this machine, which has"
                    f" {len(gpus)} GPUs; each rank needs one of its own"
                ]
            )
        gpu = gpus[0 if isolated else communicator.local_rank]
        tf.config.set_visible_devices(gpu, "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
    elif config.compute.precision != "float32" and communicator.rank == 0:
        print(
            "warning: no GPU is visible (the environment of `make setup` has TensorFlow for CPUs);"
            " mixed_float16 is slow without one",
            file=sys.stderr,
        )
    threads = config.compute.threads or share_of_cores(communicator)
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # A second one, so that an operation that waits for another rank holds up nothing else.
    tf.config.threading.set_inter_op_parallelism_threads(max(threads, 2))


def share_of_cores(communicator: Communicator) -> int:
    """Cores for each rank of this node, at least one."""
    return max(1, cores() // communicator.local_size)


def device_name() -> str:
    """The name of this rank's GPU; empty on a CPU."""
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return ""
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""))


def cuda_build() -> dict[str, str] | None:
    """CUDA and cuDNN that TensorFlow was built with; None if it was built for CPUs."""
    info = tf.sysconfig.get_build_info()
    if not info.get("is_cuda_build"):
        return None
    names = {"CUDA": "cuda_version", "cuDNN": "cudnn_version"}
    return {name: str(info[key]) for name, key in names.items() if key in info}


def peak_flops(name: str, precision: str) -> float | None:
    """Peak operations a second of a device; none if it is not known."""
    return next((peaks[precision] for key, peaks in PEAK_FLOPS.items() if key in name), None)
