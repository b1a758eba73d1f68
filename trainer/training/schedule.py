"""The learning rate as one continuous, pure function of the step."""

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    """A linear rise to `peak`, then a decay. All lengths are in steps and may be fractions."""

    peak: float
    warmup_steps: float
    total_steps: int
    kind: Literal["cosine", "step"]
    decay_steps: tuple[float, ...] = ()
    decay_factor: float = 0.1


def learning_rate(step: int, schedule: Schedule) -> float:
    """The rate of the update that follows `step` earlier ones.

    Counted from one, so that neither the first nor the last update has a rate of zero: the rise
    passes through (0, 0) and reaches the peak at `warmup_steps`; the cosine starts there and
    reaches zero one step after the last.
    """
    update = step + 1
    # 1. Warm-up (Goyal et al. 2017, section 2.2).
    if update < schedule.warmup_steps:
        return schedule.peak * update / schedule.warmup_steps
    # 2. Half a cosine from the peak to zero (Loshchilov and Hutter 2016).
    if schedule.kind == "cosine":
        length = schedule.total_steps + 1 - schedule.warmup_steps
        progress = min((update - schedule.warmup_steps) / length, 1.0)
        return schedule.peak * 0.5 * (1.0 + math.cos(math.pi * progress))
    # 3. Or a factor at each of the given steps.
    return schedule.peak * schedule.decay_factor ** sum(step >= at for at in schedule.decay_steps)
