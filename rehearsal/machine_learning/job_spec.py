"""A submitted job as typed data, and the environment variables of its processes. Pure."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rehearsal.control_plane.azure_formats import duration_seconds
from rehearsal.control_plane.identity import cloud_name
from rehearsal.control_plane.store import Document
from rehearsal.resources.workspaces import WORKSPACE, workspace_of

JOB: Final = f"{WORKSPACE}/jobs"
"""Resource Manager's kind of jobs."""

_REFERENCE = re.compile(r"\$\{\{\s*(inputs|outputs)\.([\w-]+)\s*\}\}")


@dataclass(frozen=True)
class JobSpec:
    """A command job."""

    id: str
    name: str
    workspace: str
    cluster: str
    """Id of the compute."""
    command: str
    code: str | None
    nodes: int
    processes: int
    """Processes per node."""
    distributed: bool
    """Whether mpirun starts the processes."""
    variables: Mapping[str, str]
    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]]
    timeout_seconds: float | None
    experiment: str
    identity: str | None
    """Client id of the identity that the job uses; None for its cluster's first one."""
    as_submitter: bool
    """Whether it uses the submitter's identity instead."""
    submitter: str
    """Object id of the submitter."""


def read(document: Document, max_processes: int | None) -> JobSpec:
    """Read the job that a document describes.

    Args:
        document: Document of the job.
        max_processes: Upper limit of the processes per node; None for no limit.
    """
    properties = document["properties"]
    distribution = properties.get("distribution") or {}
    processes = int(distribution.get("processCountPerInstance") or 1)
    timeout = (properties.get("limits") or {}).get("timeout")
    outputs = properties.get("outputs") or {}
    identity = properties.get("identity") or {}
    return JobSpec(
        id=document["id"],
        name=document["name"],
        workspace=workspace_of(document["id"]),
        cluster=properties["computeId"],
        command=properties["command"],
        code=properties.get("codeId"),
        nodes=int((properties.get("resources") or {}).get("instanceCount") or 1),
        processes=min(processes, max_processes or processes),
        distributed=distribution.get("distributionType") == "Mpi",
        variables=properties.get("environmentVariables") or {},
        inputs=properties.get("inputs") or {},
        outputs={name: value for name, value in outputs.items() if name != "default"},
        timeout_seconds=None if timeout is None else duration_seconds(timeout),
        experiment=properties.get("experimentName", "Default"),
        identity=identity.get("clientId"),
        as_submitter=identity.get("identityType") == "UserIdentity",
        submitter=(document.get("systemData") or {}).get("createdBy", ""),
    )


def command_line(
    command: str, inputs: Mapping[str, Path | str], outputs: Mapping[str, Path]
) -> str:
    """Return the command with its references replaced as text, without quoting, as in Azure.

    An unknown reference is left unchanged.
    """

    def value(match: re.Match[str]) -> str:
        known: Mapping[str, Path | str] = inputs if match[1] == "inputs" else outputs
        return str(known.get(match[2], match[0]))

    return _REFERENCE.sub(value, command)


def log_name(spec: JobSpec, rank: int) -> str:
    """Return the name of the file for a rank's output."""
    return f"std_log_process_{rank:02d}.txt" if spec.distributed else "std_log.txt"


def program_name(command: str) -> str:
    """Return the first word of a command, which Azure reports as the process that failed."""
    try:
        parts = shlex.split(command)
    except ValueError:
        parts = command.split()
    return parts[0].rpartition("/")[2] if parts else "bash"


@dataclass(frozen=True)
class RunContext:
    """Facts about Azure that the processes of a job are given."""

    url: str
    trusted: Path
    token: str
    """Token of the run."""
    expires: int
    """Expiry of the token, in seconds since the epoch."""
    workspace_id: str
    port: int
    """Free port of the head node, for the processes' rendezvous."""
    execution_id: str
    """Unique name of this execution of the job."""
    metadata: str
    """Address of the metadata services of its nodes, to which the number of a node is added."""
    secret: str | None = None
    """Secret with which the job asks for tokens of its managed identity; None if it has none."""


def run_variables(spec: JobSpec, context: RunContext) -> dict[str, str]:
    """Return the environment variables of all processes of a job."""
    parts = spec.workspace.split("/")
    subscription, group, workspace = parts[2], parts[4], parts[-1]
    tracking = context.url.replace("https:", "azureml:") + f"/mlflow/v1.0{spec.workspace}"
    scope = f"{spec.workspace}/experiments/{spec.experiment}"
    variables = {
        "AZUREML_RUN_ID": spec.name,
        "AZUREML_ROOT_RUN_ID": spec.name,
        "AZUREML_RUN_TOKEN": context.token,
        "AZUREML_RUN_TOKEN_EXPIRY": str(context.expires),
        "AZUREML_ARM_SUBSCRIPTION": subscription,
        "AZUREML_ARM_RESOURCEGROUP": group,
        "AZUREML_ARM_WORKSPACE_NAME": workspace,
        "AZUREML_ARM_PROJECT_NAME": spec.experiment,
        "AZUREML_WORKSPACE_ID": context.workspace_id,
        "AZUREML_WORKSPACE_SCOPE": spec.workspace,
        "AZUREML_EXPERIMENT_SCOPE": scope,
        "AZUREML_SERVICE_ENDPOINT": context.url,
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": f"{context.url}/discovery",
        "AZUREML_NODE_COUNT": str(spec.nodes),
        "MLFLOW_TRACKING_URI": tracking,
        "MLFLOW_TRACKING_TOKEN": context.token,
        "MLFLOW_RUN_ID": spec.name,
        "MLFLOW_EXPERIMENT_NAME": spec.experiment,
        "MLFLOW_EXPERIMENT_ID": spec.experiment,
        # Clients would contact real Azure otherwise.
        "ARM_CLOUD_METADATA_URL": f"{context.url}/metadata/endpoints?api-version=2019-05-01",
        "AZUREML_CURRENT_CLOUD": cloud_name(context.url),
        "REQUESTS_CA_BUNDLE": str(context.trusted),
        "SSL_CERT_FILE": str(context.trusted),
    }
    if spec.identity is not None:
        variables["DEFAULT_IDENTITY_CLIENT_ID"] = spec.identity
    if context.secret is not None:
        variables |= {"MSI_ENDPOINT": f"{context.url}/msi/token", "MSI_SECRET": context.secret}
    return variables


def rank_variables(
    spec: JobSpec, context: RunContext, node: int, local_rank: int
) -> dict[str, str]:
    """Return the environment variables that tell a process about its node."""
    rank = node * spec.processes + local_rank
    variables = {
        "AZUREML_CR_NODE_RANK": str(node),
        "AZUREML_PROCESS_NAME": f"rank_{rank}",
        # Sends clients of the metadata service here, as it sends azure-identity.
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"{context.metadata}/{node}",
    }
    if not spec.distributed:
        return variables
    head = f"127.0.0.1:{context.port}"
    master = "AZ_BATCH_MASTER_NODE" if spec.nodes > 1 else "AZ_BATCHAI_MPI_MASTER_NODE"
    return variables | {
        "AZ_BATCH_HOST_LIST": ",".join(["127.0.0.1"] * spec.nodes),
        "AZ_BATCH_NODE_LIST": ";".join(["127.0.0.1"] * spec.nodes),
        master: head if spec.nodes > 1 else "127.0.0.1",
    }


def mpi_variables(spec: JobSpec, context: RunContext, node: int, local_rank: int) -> dict[str, str]:
    """Return the environment variables that mpirun sets, for a process that it does not start."""
    if not spec.distributed:
        return {}
    rank, size = node * spec.processes + local_rank, spec.nodes * spec.processes
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(spec.processes),
        "OMPI_COMM_WORLD_NODE_RANK": str(local_rank),
        "OMPI_UNIVERSE_SIZE": str(size),
        "PMIX_NAMESPACE": context.execution_id,
        "PMIX_RANK": str(rank),
    }


def folder_variables(
    inputs: Mapping[str, Path | str], outputs: Mapping[str, Path]
) -> dict[str, str]:
    """Return the environment variables with the paths of a job's folders."""
    variables = {f"AZURE_ML_INPUT_{name}": str(path) for name, path in inputs.items()}
    return variables | {f"AZURE_ML_OUTPUT_{name}": str(path) for name, path in outputs.items()}
