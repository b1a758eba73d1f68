"""How Azure on loopback behaves."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

_ROOT = Path(__file__).resolve().parents[1]


PreemptionManner: TypeAlias = Literal["fail", "cancel", "restart"]
"""What becomes of a job that was pre-empted, since Azure's documents disagree: it fails with
PreemptionError, is cancelled without a message, or is started again when there are nodes."""


@dataclass(frozen=True)
class Options:
    """How this Azure behaves. Times are in seconds, and shorter than Azure's."""

    tenant_id: str = "11111111-aaaa-4aaa-8aaa-000000000001"
    azurite: Path = _ROOT / ".tools" / "azurite"
    """Folder of the installed blob server."""
    program_folder: Path | None = None
    """Put first on the PATH of jobs, so that its `python` stands for the image's. Of no use with an
    image of this machine."""
    image: str | None = None
    """Image of this machine in which all jobs run, whatever environment they ask for; None for jobs
    as processes of this machine."""
    max_processes_per_node: int | None = None
    """Caps a job's processes on a node, for machines with few cores."""
    allocation_seconds: float = 0.2
    """From asking for a node until it is there."""
    max_idle_seconds: float | None = None
    """Caps the time that an idle node stays, which is the cluster's own otherwise."""
    preparation_seconds: float = 0.0
    """Of a job on nodes that are there: pulling the image, in Azure."""
    sync_seconds: float = 0.5
    """Between two looks at what a job has written."""
    grace_seconds: float = 10.0
    """From a cancelled job's SIGTERM to SIGKILL."""
    token_seconds: int = 3600
    """How long a token of the identity service holds."""
    operation_seconds: float = 0.0
    """How long deletions of computes and workspaces go on after they were accepted."""
    preemption: PreemptionManner = "fail"
    mean_node_seconds: float | None = None
    """How long a node of low priority stays on average before it is pre-empted by chance; None for
    nodes that stay until `Admin.preempt`."""
    seed: int = 0
    """Of that chance: with the same seed the same jobs are pre-empted after the same time."""
    roles: bool = False
    """Whether access to blobs needs a role, assigned to a client or to a group that it is in; jobs
    need one for their inputs and outputs. Otherwise all clients may do everything."""
