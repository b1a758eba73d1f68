"""Profiles of a run: of the steps that its options name, and of those that are asked for while it
trains.
"""

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from common.text import plural
from trainer.loggers.observer import Observed, Observer
from trainer.profiler.leaf import ProfileOptions
from trainer.profiler.trace import Profiler


class ProfileObserver(Observer):
    """Begins and ends the profiles of a run; see `Observer`."""

    def __init__(self, observed: Observed) -> None:
        self._observed, self._world = observed, observed.communicator
        self._requests, self._begun = observed.requests, False
        self._profiler = Profiler(
            observed.config.of(ProfileOptions).span,
            observed.folder / "profile",
            chief=self._world.rank == 0,
            align=observed.exchanges.next,
        )

    def limit_steps(self, step: int, count: int) -> int:
        """See `Observer.limit_steps`."""
        return self._profiler.limit_steps(step, count)

    @property
    def urgent(self) -> bool:
        """Whether a profile was requested of this rank, rank 0, that has not begun."""
        return self._requests.profile is not None and not self._begun

    def around(self, step: int) -> AbstractContextManager[Any]:
        """See `Observer.around`; the profiler then tells steps apart."""
        trace: AbstractContextManager[Any] = tf.profiler.experimental.Trace(
            "train", step_num=step, _r=1
        )
        return trace

    def after(self, step: int, *, paused: bool) -> None:
        """Begin or end a profile, if one is due or was requested; the ranks have paused for it."""
        if paused:
            request = self._requests.profile if self.urgent else None
            steps = self._world.broadcast(request.steps if request else 0)
            if steps:
                self._profiler.add(step, steps)
                self._begun = self._world.rank == 0
                self._observed.say(f"recording {plural(steps, 'step')}, as requested")
        self._tell(step, ended=self._profiler.reached(step))

    def close(self, step: int) -> None:
        """See `Observer.close`."""
        self._tell(step, ended=self._profiler.close())

    def _tell(self, step: int, *, ended: bool) -> None:
        if not ended:
            return
        profiler = self._profiler
        self._observed.say(
            f"the profile could not be recorded: {profiler.error}"
            if profiler.error
            else f"the profile is in {profiler.folder}; to view it, run: make profile"
            f" RUN={self._observed.folder}"
        )
        if self._begun:
            self._begun = False
            self._requests.answer_profile(error=profiler.error, step=step)
