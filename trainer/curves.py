"""TensorBoard's curves, written without TensorFlow's operations: a millisecond less a report."""

import time
from collections.abc import Mapping

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


class Curves:
    """One file of scalars for TensorBoard."""

    def __init__(self, folder: str) -> None:
        self._writer = EventFileWriter(folder)

    def add(self, group: str, step: int, values: Mapping[str, float]) -> None:
        """Add a point to the curve `group/name` of each value; it is on disk when this returns."""
        points = [
            Summary.Value(tag=f"{group}/{name}", simple_value=value)
            for name, value in values.items()
        ]
        self._writer.add_event(
            Event(wall_time=time.time(), step=step, summary=Summary(value=points))
        )
        self._writer.flush()

    def close(self) -> None:
        """End the file."""
        self._writer.close()
