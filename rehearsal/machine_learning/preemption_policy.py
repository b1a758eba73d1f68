"""When a job on Spot nodes is pre-empted at random, and what follows. Pure."""

import random
from typing import Any

from rehearsal.control_plane.azure_formats import run_error
from rehearsal.options import PreemptionManner

PREEMPTED = (
    "PreemptionError: Nodes of this job got pre-empted. Check if the run has failed or restarted."
    " Reason: Received pre-emption warning signal"
)


def seconds_until_preemption(
    seed: int, job: str, start: int, nodes: int, mean_node_seconds: float
) -> float:
    """Return the time until the first of a job's nodes is pre-empted; deterministic by seed and
    job.

    Args:
        seed: Seed of the rehearsal.
        job: Name of the job.
        start: Number of earlier starts of the job. Each start has a different time; otherwise a
            restarted job would never get further.
        nodes: Number of nodes. Each is pre-empted independently of the others, and any one ends the
            job.
        mean_node_seconds: Mean time until a node is pre-empted.
    """
    return random.Random(f"{seed}/{job}/{start}").expovariate(nodes / mean_node_seconds)


def run_after_preemption(manner: PreemptionManner, message: str | None = None) -> dict[str, Any]:
    """Return the changes to the run of a pre-empted job; a job that is queued again restarts.

    Args:
        manner: What happens to the job.
        message: Message of a job that fails; None for Azure's usual one.
    """
    match manner:
        case "restart":
            return {"status": "Queued"}
        case "cancel":
            return {"status": "Canceled"}
        case "fail":
            return {"status": "Failed", "error": run_error("UserError", message or PREEMPTED)}
