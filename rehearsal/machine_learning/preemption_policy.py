"""How long Azure lets a job have its nodes of low priority. Pure."""

import random


def life_seconds(seed: int, job: str, start: int, nodes: int, mean_node_seconds: float) -> float:
    """Time until the first of a job's nodes is taken away, the same for the same seed and job.

    Args:
        seed: of the rehearsal.
        job: its name.
        start: how often it was started before; each has a time of its own, or a job that is started
            again would never come further.
        nodes: each is taken away independently of the others, and any one ends the job.
        mean_node_seconds: that a node stays on average.
    """
    return random.Random(f"{seed}/{job}/{start}").expovariate(nodes / mean_node_seconds)
