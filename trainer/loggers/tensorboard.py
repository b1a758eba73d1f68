"""TensorBoard's curves, written without TensorFlow operations, which saves 1 ms per report."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.summary.writer.record_writer import RecordWriter

from trainer.errors import warn


class Curves:
    """One file of scalars for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        self._writer, self._folder = EventFileWriter(str(folder)), folder
        self._ended = False

    def add(self, group: str, step: int, values: Mapping[str, float]) -> None:
        """Add a point to the curve `group/name` of each value, and flush it to disk. If that fails,
        as on a full disk, the curves end, with a warning.
        """
        if self._ended:
            return
        points = [
            Summary.Value(tag=f"{group}/{name}", simple_value=value)
            for name, value in values.items()
        ]
        with self._lossy():
            self._writer.add_event(
                Event(wall_time=time.time(), step=step, summary=Summary(value=points))
            )
            self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        with self._lossy():
            self._writer.close()

    @contextmanager
    def _lossy(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 TensorFlow's files have errors of their own
            if not self._ended:
                warn(f"{self._folder}: the curves of TensorBoard end ({error}); training continues")
            self._ended = True


def rewind_curves(folder: Path, step: int) -> None:
    """Drop the points after a step, to which training returns, from all curves below a folder.

    A file without such points is not changed.
    """
    for path in folder.glob("attempt-*/events.out.tfevents.*"):
        events, dropped = [], False
        for raw in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(raw)
            dropped |= event.step > step
            if event.step <= step:
                events.append(raw)
        if dropped:
            scratch = path.with_name(f".{path.name}.{os.getpid()}")
            with scratch.open("wb") as file:
                writer = RecordWriter(file)
                for raw in events:
                    writer.write(raw)
            scratch.replace(path)
