"""The device and the cores that a rank computes with."""

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.distributed import Communicator
from trainer.errors import ConfigError
from trainer.preflight import cores

PEAK_FLOPS: dict[str, dict[str, float]] = {
    "V100": {"mixed_float16": 125e12, "float32": 15.7e12},
    "A100": {"mixed_float16": 312e12, "float32": 19.5e12},
    "H100": {"mixed_float16": 989e12, "float32": 67e12},
    "T4": {"mixed_float16": 65e12, "float32": 8.1e12},
}
"""Peak operations a second by device and precision, without sparsity: NVIDIA's data sheets."""


def set_up_device(config: TrainConfig, communicator: Communicator) -> None:
    """Give this rank its GPU, if there are any, and its share of the cores.

    Raises:
        ConfigError: there are GPUs, but fewer than ranks on this machine.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        if communicator.local_size > len(gpus):
            raise ConfigError(
                [
                    f"--ranks: {communicator.local_size} ranks on this machine, which has"
                    f" {len(gpus)} GPUs; each rank needs one of its own"
                ]
            )
        gpu = gpus[communicator.local_rank]
        tf.config.set_visible_devices(gpu, "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
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


def peak_flops(name: str, precision: str) -> float | None:
    """Peak operations a second of a device; none if it is not known."""
    return next((peaks[precision] for key, peaks in PEAK_FLOPS.items() if key in name), None)
