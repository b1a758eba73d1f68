"""The rank that a launcher gave this process, read from the environment. Pure, standard library
only.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from common.errors import ConfigError


@dataclass(frozen=True)
class Rank:
    """A process among those that a launcher started."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    launcher: str


def launched_as(env: Mapping[str, str]) -> Rank | None:
    """Return the rank of this process in its launcher's environment; None without a launcher."""
    for launcher, names in {
        "Horovod": ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
        "Open MPI": (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
        "MPI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    }.items():
        if names[0] in env and names[1] in env:
            rank, size = int(env[names[0]]), int(env[names[1]])
            return Rank(rank, size, int(env.get(names[2], 0)), int(env.get(names[3], 1)), launcher)
    return None


def gloo_under_mpi(env: Mapping[str, str], launched: Rank) -> dict[str, str]:
    """Return the variables with which a Horovod without MPI forms the world that mpirun started.

    Without them such a Horovod ignores mpirun, and each process would train on its own. Azure ML
    starts mpirun itself, with one process per GPU, filling one node after the other.

    Raises:
        ConfigError: The node of rank 0 is unknown, or nodes have unequal numbers of processes.
    """
    if launched.size % launched.local_size:
        raise ConfigError(
            [
                f"mpirun started {launched.size} processes, {launched.local_size} on this node;"
                " Gloo needs the same number on every node"
            ]
        )
    master = env.get("AZ_BATCH_MASTER_NODE") or env.get("AZ_BATCHAI_MPI_MASTER_NODE")
    address = env.get("HOROVOD_GLOO_RENDEZVOUS_ADDR") or env.get("MASTER_ADDR")
    if address is None and launched.local_size == launched.size:
        address = "127.0.0.1"
    elif address is None and master:
        address = master.split(":")[0]
    if address is None:
        raise ConfigError(
            [
                "HOROVOD_GLOO_RENDEZVOUS_ADDR: Horovod is built without MPI and mpirun started"
                " several nodes; set it to the address of rank 0's node"
            ]
        )
    job = env.get("PMIX_NAMESPACE") or env.get("OMPI_MCA_ess_base_jobid") or address
    port = env.get("HOROVOD_GLOO_RENDEZVOUS_PORT") or str(
        20_000 + zlib.crc32(job.encode()) % 10_000
    )
    node = launched.rank // launched.local_size
    return {
        "HOROVOD_RANK": str(launched.rank),
        "HOROVOD_SIZE": str(launched.size),
        "HOROVOD_LOCAL_RANK": str(launched.local_rank),
        "HOROVOD_LOCAL_SIZE": str(launched.local_size),
        "HOROVOD_CROSS_RANK": str(node),
        "HOROVOD_CROSS_SIZE": str(launched.size // launched.local_size),
        "HOROVOD_HOSTNAME": f"node{node}",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
    }
