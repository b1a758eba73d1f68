"""A trace of some training steps by TensorFlow's profiler, of rank 0."""

from pathlib import Path

import tensorflow as tf


class Profiler:
    """Records the steps of a span, one call of the loop each, so that the trace knows steps."""

    def __init__(self, span: tuple[int, int] | None, folder: Path, *, chief: bool) -> None:
        self._span, self._chief = span, chief
        self._recording = False
        self.folder = folder
        """Where the trace is written: `xprof --logdir` shows it."""

    def limit_steps(self, step: int, count: int) -> int:
        """How many of so many steps to take in a call, the same on all ranks."""
        if self._span is None:
            return count
        begin, end = self._span
        if begin <= step < end:
            return 1
        return min(count, begin - step) if step < begin else count

    def reached(self, step: int) -> bool:
        """Begin or end to record, if it is time to.

        Returns:
            Whether the record was written by this call.
        """
        if self._span is None or not self._chief:
            return False
        begin, end = self._span
        if not self._recording and begin <= step < end:
            # Python's own calls would bury what the graph does.
            options = tf.profiler.experimental.ProfilerOptions(python_tracer_level=0)
            tf.profiler.experimental.start(str(self.folder), options)
            self._recording = True
        elif self._recording and step >= end:
            return self.close()
        return False

    def close(self) -> bool:
        """End a record that is going on; returns whether there was one."""
        if not self._recording:
            return False
        self._recording = False
        tf.profiler.experimental.stop()
        return True
