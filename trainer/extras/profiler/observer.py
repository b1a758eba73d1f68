"""Profiles of a run: of the steps that its options name, and of those that are asked for while it
trains.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf

from common.text import plural
from trainer.extras.profiler.leaf import ProfileOptions
from trainer.loggers.observer import Observed, Observer


class ProfileObserver(Observer):
    """Begins and ends the profiles of a run; see `Observer`."""

    def __init__(self, observed: Observed) -> None:
        self._observed, self._world = observed, observed.communicator
        self._requests, self._begun = observed.requests, False
        self._profiler = Profiler(
            observed.config.of(ProfileOptions).span,
            observed.folder / "profile",
            chief=self._world.rank == 0,
            align=observed.equal_after,
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

    def after(self, step: int, *, paused: bool, last: bool) -> None:
        """Begin or end a profile, if one is due or was requested; the ranks have paused for it."""
        if paused:
            request = self._requests.profile if self.urgent else None
            steps = self._world.broadcast(request.steps if request else 0)
            if steps:
                self._profiler.add(step, steps)
                self._begun = self._world.rank == 0
                self._observed.say(f"recording {plural(steps, 'step')}, as requested")
        profiler = self._profiler
        if not (profiler.close() if last else profiler.reached(step)):
            return
        self._observed.say(
            f"the profile could not be recorded: {profiler.error}"
            if profiler.error
            else f"the profile is in {profiler.folder}; to view it, run: make -C tools profile"
            f" RUN={self._observed.folder}"
        )
        if self._begun:
            self._begun = False
            self._requests.answer_profile(error=profiler.error, step=step)


class Profiler:
    """Records the steps of spans, one call of the loop per step, so that the trace shows steps.

    Every rank has the same spans, because all must take the same number of steps in a call.

    Args:
        span: Steps done where a recording begins and ends.
        folder: Folder of the trace.
        chief: Whether this rank records.
        align: Returns the next number of steps after which a call can end.
    """

    def __init__(
        self,
        span: tuple[int, int] | None,
        folder: Path,
        *,
        chief: bool,
        align: Callable[[int], int] = int,
    ) -> None:
        self._align, self._chief = align, chief
        self._spans = [self._aligned(*span)] if span else []
        self._recording = False
        self.folder = folder
        """Folder of the trace, for `xprof --logdir`."""
        self.error: str | None = None
        """Why the last span was not recorded; None if it was."""

    def add(self, step: int, steps: int) -> None:
        """Also record a number of steps, from now or from the end of the span in progress."""
        begin = max([step, *(end for begin, end in self._spans if begin <= step < end)])
        self._spans.append(self._aligned(begin, begin + steps))

    def limit_steps(self, step: int, count: int) -> int:
        """Return how many of `count` steps to take in one call, the same on all ranks."""
        if self._inside(step):
            return 1
        return min([count, *(begin - step for begin, _ in self._spans if step < begin)])

    def reached(self, step: int) -> bool:
        """Start or stop recording, if a span begins or ends at this step.

        Returns:
            Whether a span has ended: the trace is written, or `error` says why not.
        """
        if not self._chief:
            return False
        if not self._inside(step):
            return self.close()
        if not self._recording:
            # Events of Python would bury those of the graph.
            options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
            self._recording, self.error = True, None
            try:
                tf.profiler.experimental.start(str(self.folder), options)
            except (tf.errors.OpError, OSError) as error:
                self.error = str(error)
        return False

    def close(self) -> bool:
        """Stop a recording in progress; return whether there was one."""
        if not self._recording:
            return False
        self._recording = False
        try:
            if self.error is None:
                tf.profiler.experimental.stop()
        except (tf.errors.OpError, OSError) as error:
            self.error = str(error)
        return True

    def _aligned(self, begin: int, end: int) -> tuple[int, int]:
        begin = self._align(begin)
        return begin, self._align(max(end, begin + 1))

    def _inside(self, step: int) -> bool:
        return any(begin <= step < end for begin, end in self._spans)
