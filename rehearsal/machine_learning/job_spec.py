"""What a submitted job says, typed, and what its processes are told. Pure."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
