"""What a job finds when it starts."""

from dataclasses import dataclass
from pathlib import Path

from rehearsal.blob_storage.blobs import Blobs
from rehearsal.blob_storage.folder_sync import Cache
from rehearsal.control_plane.identity import Identity
from rehearsal.control_plane.resource_manager import Resources
from rehearsal.machine_learning.container import Runtime
from rehearsal.machine_learning.run_history import Runs
from rehearsal.options import Options
from rehearsal.reaper import Guard
from rehearsal.resources.roles import Roles


@dataclass(frozen=True)
class World:
    """The parts of this Azure that run jobs."""

    resources: Resources
    runs: Runs
    blobs: Blobs
    cache: Cache
    guard: Guard
    identity: Identity
    roles: Roles
    options: Options
    folder: Path
    """Where nodes have their disks."""
    runtime: Runtime | None
    """What runs jobs in an image; none if they are processes of this machine."""
    trusted: Path
    url: str
