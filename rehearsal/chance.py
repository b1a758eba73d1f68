"""How long Azure lets a job have its nodes of low priority. Pure."""

import random


def life_seconds(seed: int, job: str, nodes: int, mean_node_seconds: float) -> float:
    """Time until the first of a job's nodes is taken away, the same for the same seed and job.

    Args:
        seed: of the rehearsal.
        job: its name.
        nodes: each is taken away independently of the others, and any one ends the job.
        mean_node_seconds: that a node stays on average.
    """
    return random.Random(f"{seed}/{job}").expovariate(nodes / mean_node_seconds)
