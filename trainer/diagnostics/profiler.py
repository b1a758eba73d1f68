"""A trace of some training steps by TensorFlow's profiler, of rank 0."""

from pathlib import Path

import tensorflow as tf


class Profiler:
    """Records the steps of a span, one call of the loop per step, so that the trace shows steps."""

    def __init__(self, span: tuple[int, int] | None, folder: Path, *, chief: bool) -> None:
        self._span, self._chief = span, chief
        self._recording = False
        self.folder = folder
        """Folder of the trace, for `xprof --logdir`."""

    def limit_steps(self, step: int, count: int) -> int:
        """Return how many of `count` steps to take in one call, the same on all ranks."""
        if self._span is None:
            return count
        begin, end = self._span
        if begin <= step < end:
            return 1
        return min(count, begin - step) if step < begin else count

    def reached(self, step: int) -> bool:
        """Start or stop recording, if the span begins or ends at this step.

        Returns:
            Whether this call wrote the trace.
        """
        if self._span is None or not self._chief:
            return False
        begin, end = self._span
        if not self._recording and begin <= step < end:
            # Events of Python would bury those of the graph.
            options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
            tf.profiler.experimental.start(str(self.folder), options)
            self._recording = True
        elif self._recording and step >= end:
            return self.close()
        return False

    def close(self) -> bool:
        """Stop a recording in progress; return whether there was one."""
        if not self._recording:
            return False
        self._recording = False
        tf.profiler.experimental.stop()
        return True
