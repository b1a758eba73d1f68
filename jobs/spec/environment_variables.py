"""Environment variables of a job's processes. Pure.

Nothing here disables InfiniBand, and user variables must not disable it either: in Azure's
measurements (Azure/azureml-examples, best-practices/largescale-deep-learning) it speeds up training
by a factor of 1.8 to 2.4.
"""

import re
from collections.abc import Sequence

from infra.outputs import Cluster
from jobs.options import DataOptions
from jobs.spec.secret_texts import is_secret
from trainer.distributed.run_requests import DEBUG, HOLD_MINUTES

_FORM = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_SECRET = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|TOKEN|CREDENTIAL|CONNECTION_?STRING|AUTHORIZATION"
    r"|(_|^)(KEY|SAS|PAT|AUTH)$|(API|ACCESS|ACCOUNT|PRIVATE|SHARED|SIGNING|STORAGE|MASTER)_?KEY"
)
_OF_LAUNCHER = re.compile(
    r"(OMPI_COMM_WORLD|PMI|PMIX|AZUREML|AZ_BATCH|AZ_BATCHAI)_.*"
    r"|HOROVOD_(RANK|SIZE|LOCAL_RANK|LOCAL_SIZE|CROSS_RANK|CROSS_SIZE)"
)


def of_processes(cluster: Cluster) -> dict[str, str]:
    """Return the variables of any program on a cluster.

    Horovod's fusion buffer and cycle time are not among them: the trainer sets them from its
    configuration, unless the environment sets them.
    """
    variables = {"PYTHONUNBUFFERED": "1"}
    if cluster.gpus_per_node:
        variables |= {
            # NCCL reports the networks that it cannot use; it selects the network itself.
            "NCCL_DEBUG": "WARN",
            # Horovod reports ranks that the others wait for; the trainer's watchdog ends them.
            "HOROVOD_STALL_CHECK_TIME_SECONDS": "60",
        }
    return variables


def of_run(hold_minutes: float | None, *, paused: bool) -> dict[str, str]:
    """Return the variables of a job that trains.

    Args:
        hold_minutes: Minutes to keep the nodes of a job that has failed; None does not.
        paused: Whether rank 0 waits for a debugger.
    """
    # A run is asked through files.
    return of_shared_output() | _given(
        {
            HOLD_MINUTES: f"{hold_minutes:g}" if hold_minutes else None,
            DEBUG: "0" if paused else None,
        }
    )


def of_shared_output() -> dict[str, str]:
    """Return the variables with which a node sees what others write to a mounted output."""
    # By default a mount never looks again at a file that it has seen (Azure Machine Learning,
    # "Access data in a job"). Milliseconds.
    return {"DATASET_MOUNT_ATTRIBUTE_CACHE_TTL": "30000"}


def of_check() -> dict[str, str]:
    """Return the variables that make NCCL report the network that it selects."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


def of_data(data: DataOptions) -> dict[str, str]:
    """Return the settings of a mount or a download (Azure Machine Learning, "Access data in a
    job"). Options that are None are left to Azure.
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
    """Parse variables given as NAME=VALUE; return them, and all problems."""
    variables: dict[str, str] = {}
    problems: list[str] = []
    for text in texts:
        match = _FORM.fullmatch(text)
        if match is None:
            # A text without a name may be a secret, so it is not shown.
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
    if _SECRET.search(name.upper()) or is_secret(value):
        return (
            "looks like a secret, but everyone with access to the job can read its variables; let"
            " the job's identity read it from the key vault"
        )
    if _OF_LAUNCHER.fullmatch(name):
        return "is set by Azure Machine Learning or by mpirun; omit it"
    if (name == "NCCL_IB_DISABLE" and value.strip() != "0") or (
        name == "NCCL_NET" and value.strip().lower() == "socket"
    ):
        return f"{value!r} keeps NCCL from using InfiniBand; omit it"
    return None


def _given(values: dict[str, str | int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}
