"""What a rehearsal may be told."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ROOT = Path(__file__).resolve().parents[1]


Manner = Literal["fail", "cancel", "restart"]
"""What becomes of a job whose nodes were taken, since Azure's documents disagree: it fails with
PreemptionError, is cancelled without a word, or is started again when there are nodes."""


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
    """Image of this machine in which all jobs run, whatever environment they ask for; without it
    they are processes of this machine."""
    most_processes_per_node: int | None = None
    """Caps a job's processes on a node, for machines with few cores."""
    allocation_seconds: float = 0.2
    """From asking for a node until it is there."""
    most_idle_seconds: float | None = None
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
    preemption: Manner = "fail"
    mean_node_seconds: float | None = None
    """How long a node of low priority stays on average before it is taken away, by chance; none is
    until somebody takes it."""
    seed: int = 0
    """Of that chance: the same seed takes the same jobs' nodes after the same time."""
    roles: bool = False
    """Whether blobs are only for who has a role on them, by itself or by a group: of those who are
    signed in, and of jobs for their inputs and outputs. Otherwise everybody may do everything."""
