"""Environment variables of a job's processes. Pure.

Nothing here turns InfiniBand off, and nothing that is asked for may: by Azure's own measurements
(Azure/azureml-examples, best-practices/largescale-deep-learning) it is worth a factor of 1.8 to
2.4.
"""

import re
from collections.abc import Sequence

from infra.outputs import Cluster
from jobs.options import DataOptions

_FORM = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SECRET = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|TOKEN|CREDENTIAL|CONNECTION_?STRING|AUTHORIZATION"
    r"|(_|^)(KEY|SAS|PAT|AUTH)$"
)
_SECRET_VALUE = re.compile(r"(?<![a-z])sig=|AccountKey=|SharedAccessSignature=", re.IGNORECASE)
"""Of an address with a signature, or of a connection string."""
_OF_LAUNCHER = re.compile(
    r"(OMPI_COMM_WORLD|PMI|PMIX|AZUREML|AZ_BATCH|AZ_BATCHAI)_.*"
    r"|HOROVOD_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE)"
)


def of_processes(cluster: Cluster) -> dict[str, str]:
    """What helps any program on a cluster.

    Horovod's fusion buffer and cycle time are not here: the trainer sets them from its
    configuration, unless the environment says otherwise.
    """
    variables = {"PYTHONUNBUFFERED": "1"}
    if cluster.gpus_per_node:
        variables |= {
            # NCCL names what it cannot use; its own choice of network is left alone.
            "NCCL_DEBUG": "WARN",
            # Horovod names the ranks that the others wait for; the trainer's watchdog ends them.
            "HOROVOD_STALL_CHECK_TIME_SECONDS": "60",
        }
    return variables


def of_check() -> dict[str, str]:
    """What makes NCCL say which network it takes."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


def of_data(data: DataOptions) -> dict[str, str]:
    """Settings of a mount or a download (Azure Machine Learning, "Access data in a job"). What is
    not asked for is left to Azure.
    """
    if data.mode == "download":
        return _given({"RSLEX_DOWNLOADER_THREADS": data.read_threads})
    return {
        "DATASET_MOUNT_BLOCK_BASED_CACHE_ENABLED": "true" if data.cache == "blocks" else "false",
        **_given(
            {
                "DATASET_MOUNT_CACHE_SIZE": data.cache_gb and f"{data.cache_gb}GB",
                "DATASET_MOUNT_READ_THREADS": data.read_threads,
                "DATASET_MOUNT_READ_BUFFER_BLOCK_COUNT": data.prefetch_blocks,
            }
        ),
    }


def read(texts: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Variables given as NAME=VALUE, and what is wrong with them."""
    variables: dict[str, str] = {}
    problems: list[str] = []
    for text in texts:
        match = _FORM.fullmatch(text)
        if match is None:
            # A text without a name may be nothing but a secret, so it is not shown.
            name = text.partition("=")[0] if "=" in text else "a text without '='"
            problems.append(f"--variables: {name!r}: must be NAME=VALUE")
            continue
        name, value = match[1], match[2]
        problem = _problem(name, value)
        if problem:
            problems.append(f"--variables: {name}: {problem}")
        elif name in variables:
            problems.append(f"--variables: {name}: is given twice")
        variables[name] = value
    return variables, problems


def _problem(name: str, value: str) -> str | None:
    if _SECRET.search(name.upper()) or _SECRET_VALUE.search(value):
        return (
            "looks like a secret, and a job's variables can be read by everyone who may see the"
            " job; let the job's identity fetch it from the vault"
        )
    if _OF_LAUNCHER.fullmatch(name):
        return "is set by Azure Machine Learning or by mpirun; leave it out"
    if (name == "NCCL_IB_DISABLE" and value.strip() != "0") or (
        name == "NCCL_NET" and value.strip().lower() == "socket"
    ):
        return f"{value!r} keeps NCCL from using InfiniBand; leave it out"
    return None


def _given(values: dict[str, str | int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}
