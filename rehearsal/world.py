"""What a job finds when it starts."""

from dataclasses import dataclass
from pathlib import Path

from rehearsal.blobs import Blobs
from rehearsal.folders import Cache
from rehearsal.identity import Identity
from rehearsal.options import Options
from rehearsal.processes import Guard
from rehearsal.resources import Resources
from rehearsal.roles import Roles
from rehearsal.runs import Runs
from rehearsal.runtime import Runtime


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
