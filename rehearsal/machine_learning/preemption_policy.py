"""When a job loses its nodes of low priority by chance, and what becomes of it then. Pure."""

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
    """Time until the first of a job's nodes is pre-empted, the same for the same seed and job.

    Args:
        seed: of the rehearsal.
        job: its name.
        start: how often it was started before; each start has a time of its own, or a job that is
            started again would never come further.
        nodes: each is pre-empted independently of the others, and any one ends the job.
        mean_node_seconds: how long a node stays on average.
    """
    return random.Random(f"{seed}/{job}/{start}").expovariate(nodes / mean_node_seconds)


def run_after_preemption(manner: PreemptionManner) -> dict[str, Any]:
    """Changes of the run of a job that was pre-empted; one that is queued is started again."""
    match manner:
        case "restart":
            return {"status": "Queued"}
        case "cancel":
            return {"status": "Canceled"}
        case "fail":
            return {"status": "Failed", "error": run_error("UserError", PREEMPTED)}
