"""Options of the simulator."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

_ROOT = Path(__file__).resolve().parents[1]


PreemptionManner: TypeAlias = Literal["fail", "cancel", "restart"]
"""What happens to a pre-empted job. Azure's documents disagree: it fails with PreemptionError, is
cancelled without a message, or is restarted when there are nodes."""


@dataclass(frozen=True)
class Options:
    """Options of this Azure. Times are in seconds, and shorter than Azure's."""

    tenant_id: str = "11111111-aaaa-4aaa-8aaa-000000000001"
    subscriptions: tuple[str, ...] | None = None
    """Ids of the subscriptions that exist; None if every one does."""
    azurite: Path = _ROOT / ".tools" / "azurite"
    """Folder of the installed blob server."""
    program_folder: Path | None = None
    """Folder to put first on the PATH of jobs, so that its `python` replaces the image's. Not used
    when jobs run in an image."""
    image: str | None = None
    """Image of this machine to run all jobs in, whatever environment they request; None runs jobs
    as processes of this machine."""
    serving_python: Path = _ROOT / ".tools" / "serving" / "bin" / "python"
    """Python of the servers that answer at endpoints, in place of that of their image."""
    max_processes_per_node: int | None = None
    """Upper limit of a job's processes per node, and of a server's workers, for machines with few
    cores."""
    allocation_seconds: float = 0.2
    """Time until a requested node is allocated."""
    max_idle_seconds: float | None = None
    """Upper limit of the time that an idle node stays; None uses the cluster's own setting."""
    preparation_seconds: float = 0.0
    """Time to prepare a job on its nodes; in Azure, to pull the image."""
    setup_seconds: float = 0.0
    """Time from a job's nodes to the start of its program, in which its state is Preparing; in
    Azure, to pull the image there and to mount the inputs."""
    finalizing_seconds: float = 0.0
    """Time from the end of a job's program to that of the job, in which its state is Finalizing and
    it keeps its nodes."""
    card_seconds: float = 0.0
    """Time for which the network cards of a deleted cluster's nodes keep their subnet, minutes on
    Azure."""
    sync_seconds: float = 0.5
    """Interval between two checks for new files of a job."""
    mount_seconds: float = 1.0
    """Time for which a mount of an output remembers the names in its folder: what others write or
    delete is seen after that, and data that they overwrite are never read again."""
    grace_seconds: float = 10.0
    """Time from SIGTERM to SIGKILL of a cancelled job."""
    token_seconds: int = 3600
    """Validity of a token."""
    operation_seconds: float = 0.0
    """Time that changes and deletions take after they were answered, where they take time on Azure.
    With 0 the answers are the same, and the first question finds the operation at its end."""
    pause_seconds: int | None = 1
    """Longest Retry-After of such operations, 30 on Azure; None for Azure's own."""
    preemption: PreemptionManner = "fail"
    mean_node_seconds: float | None = None
    """Mean time until a Spot node is pre-empted at random; None for nodes that stay until
    `Admin.preempt`."""
    notice_seconds: float = 0.0
    """Time from the notice of a random pre-emption to the end of its nodes, 30 on Azure; 0 for
    pre-emptions without a notice."""
    capacity: Path | None = None
    """Trace of the Spot nodes that there are, as a CSV file; None for as many as are asked for."""
    hours_per_second: float = 1.0
    """Hours of that trace that pass in a second."""
    seed: int = 0
    """Seed of the random pre-emptions: the same seed pre-empts the same jobs after the same
    time."""
    account_seconds: float = 0.0
    """Time that an operation on a storage account takes, during which others on it are refused; 0
    for accounts that refuse none."""
    role_seconds: float = 0.0
    """Time until an assigned role has an effect on blobs and on the creation of a workspace; 0 for
    workspaces that need no roles."""
    roles: bool = False
    """Whether access to blobs, and changes of a workspace's jobs and assets, need a role that is
    assigned to a client or to one of its groups; jobs need roles for their inputs and outputs.
    Otherwise all clients may do everything."""
    throttle: bool = False
    """Whether requests of a client beyond the rates of Resource Manager get 429."""
