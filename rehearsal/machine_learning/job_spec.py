"""What a submitted job says, typed, and what its processes are told. Pure."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.control_plane.identity import cloud_name
from rehearsal.control_plane.store import Document
from rehearsal.resources.workspaces import workspace_of

_REFERENCE = re.compile(r"\$\{\{\s*(inputs|outputs)\.([\w-]+)\s*\}\}")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


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
    """On each node."""
    distributed: bool
    """Whether mpirun starts the processes."""
    variables: Mapping[str, str]
    inputs: Mapping[str, Mapping[str, Any]]
    outputs: Mapping[str, Mapping[str, Any]]
    timeout_seconds: float | None
    experiment: str
    identity: str | None
    """Client id that the job acts as; none is its cluster's identity."""
    as_submitter: bool
    """Whether it acts as who submitted it instead."""
    submitter: str
    """Object id."""


def read(document: Document, most_processes: int | None) -> JobSpec:
    """A job of its document.

    Args:
        document: of the job.
        most_processes: caps the processes on a node.
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
        processes=min(processes, most_processes or processes),
        distributed=distribution.get("distributionType") == "Mpi",
        variables=properties.get("environmentVariables") or {},
        inputs=properties.get("inputs") or {},
        outputs={name: value for name, value in outputs.items() if name != "default"},
        timeout_seconds=None if timeout is None else seconds(timeout),
        experiment=properties.get("experimentName", "Default"),
        identity=identity.get("clientId"),
        as_submitter=identity.get("identityType") == "UserIdentity",
        submitter=(document.get("systemData") or {}).get("createdBy", ""),
    )


def seconds(duration: str) -> float:
    """Seconds of an ISO 8601 duration of days and less, such as PT6H.

    Raises:
        ValueError: the text is none.
    """
    match = _DURATION.fullmatch(duration)
    if match is None or not any(match.groups()):
        raise ValueError(f"{duration!r} is no duration")
    days, hours, minutes, rest = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def command_line(
    command: str, inputs: Mapping[str, Path | str], outputs: Mapping[str, Path]
) -> str:
    """The command with its references replaced, as text: Azure does not quote either.

    A reference to nothing stays as it is.
    """

    def value(match: re.Match[str]) -> str:
        known: Mapping[str, Path | str] = inputs if match[1] == "inputs" else outputs
        return str(known.get(match[2], match[0]))

    return _REFERENCE.sub(value, command)


def log_name(spec: JobSpec, rank: int) -> str:
    """Name of the file that a rank's output goes to."""
    return f"std_log_process_{rank:02d}.txt" if spec.distributed else "std_log.txt"


def program(command: str) -> str:
    """The first word of a command, as Azure names the process that failed."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return words[0].rpartition("/")[2] if words else "bash"


@dataclass(frozen=True)
class Service:
    """What a job is told of the Azure that runs it."""

    url: str
    trusted: Path
    token: str
    """Of the run."""
    expires: int
    """Seconds since the epoch."""
    workspace_id: str
    port: int
    """Free for whoever meets on the head node."""
    launch: str
    """A name that no other start of a job has had."""


def of_run(spec: JobSpec, service: Service) -> dict[str, str]:
    """What all processes of a job are told."""
    words = spec.workspace.split("/")
    subscription, group, workspace = words[2], words[4], words[-1]
    tracking = service.url.replace("https:", "azureml:") + f"/mlflow/v1.0{spec.workspace}"
    scope = f"{spec.workspace}/experiments/{spec.experiment}"
    found = {
        "AZUREML_RUN_ID": spec.name,
        "AZUREML_ROOT_RUN_ID": spec.name,
        "AZUREML_RUN_TOKEN": service.token,
        "AZUREML_RUN_TOKEN_EXPIRY": str(service.expires),
        "AZUREML_ARM_SUBSCRIPTION": subscription,
        "AZUREML_ARM_RESOURCEGROUP": group,
        "AZUREML_ARM_WORKSPACE_NAME": workspace,
        "AZUREML_ARM_PROJECT_NAME": spec.experiment,
        "AZUREML_WORKSPACE_ID": service.workspace_id,
        "AZUREML_WORKSPACE_SCOPE": spec.workspace,
        "AZUREML_EXPERIMENT_SCOPE": scope,
        "AZUREML_SERVICE_ENDPOINT": service.url,
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": f"{service.url}/discovery",
        "AZUREML_NODE_COUNT": str(spec.nodes),
        "MLFLOW_TRACKING_URI": tracking,
        "MLFLOW_TRACKING_TOKEN": service.token,
        "MLFLOW_RUN_ID": spec.name,
        "MLFLOW_EXPERIMENT_NAME": spec.experiment,
        "MLFLOW_EXPERIMENT_ID": spec.experiment,
        # Azure's own address would be asked otherwise.
        "ARM_CLOUD_METADATA_URL": f"{service.url}/metadata/endpoints?api-version=2019-05-01",
        "AZUREML_CURRENT_CLOUD": cloud_name(service.url),
        "REQUESTS_CA_BUNDLE": str(service.trusted),
        "SSL_CERT_FILE": str(service.trusted),
    }
    if spec.identity is not None:
        found["DEFAULT_IDENTITY_CLIENT_ID"] = spec.identity
    return found


def of_rank(spec: JobSpec, service: Service, node: int, local_rank: int) -> dict[str, str]:
    """What one process is told of its node."""
    rank = node * spec.processes + local_rank
    found = {"AZUREML_CR_NODE_RANK": str(node), "AZUREML_PROCESS_NAME": f"rank_{rank}"}
    if not spec.distributed:
        return found
    head = f"127.0.0.1:{service.port}"
    master = "AZ_BATCH_MASTER_NODE" if spec.nodes > 1 else "AZ_BATCHAI_MPI_MASTER_NODE"
    return found | {
        "AZ_BATCH_HOST_LIST": ",".join(["127.0.0.1"] * spec.nodes),
        "AZ_BATCH_NODE_LIST": ";".join(["127.0.0.1"] * spec.nodes),
        master: head if spec.nodes > 1 else "127.0.0.1",
    }


def of_mpirun(spec: JobSpec, service: Service, node: int, local_rank: int) -> dict[str, str]:
    """What mpirun tells one process, where there is none to start it."""
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
        "PMIX_NAMESPACE": service.launch,
        "PMIX_RANK": str(rank),
    }


def of_folders(inputs: Mapping[str, Path | str], outputs: Mapping[str, Path]) -> dict[str, str]:
    """Where a job's folders are."""
    found = {f"AZURE_ML_INPUT_{name}": str(path) for name, path in inputs.items()}
    return found | {f"AZURE_ML_OUTPUT_{name}": str(path) for name, path in outputs.items()}
