"""What a run reports, and the only clock it is timed by.

Time is split into phases, and only `train` counts for images a second: the first step (tracing and
compilation), evaluations and checkpoints have phases of their own. `data_wait_percent` is the part
of `train` in which rank 0 waited for its next batch; above a few percent the input is the
bottleneck.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from trainer.training.loop import LoopReport

Phase = Literal["compile", "train", "evaluation", "checkpoint"]


class Chrono:
    """Seconds spent in each phase, carried over restarts."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        totals: Mapping[str, float] | None = None,
        watch: Callable[[Phase], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        """`watch` is entered with each phase."""
        self._clock, self._watch = clock, watch
        self.totals: dict[str, float] = dict(totals or {})

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Count the time of a block for a phase."""
        start = self._clock()
        try:
            with self._watch(name):
                yield
        finally:
            self.totals[name] = self.seconds(name) + self._clock() - start

    def seconds(self, name: Phase) -> float:
        return self.totals.get(name, 0.0)

    @property
    def total(self) -> float:
        """Seconds in all phases."""
        return sum(self.totals.values())


class Interval:
    """Metrics of the steps between two lines."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self.reset()

    def reset(self) -> None:
        """Begin a new interval."""
        self._images = self._timed_images = self._skipped = self._left_out = 0
        self._loss = self._hits = self._seconds = self._wait = 0.0
        self._last: LoopReport | None = None

    def add(self, report: "LoopReport", seconds: float | None, expected_images: int) -> None:
        """Add the steps of one call.

        Args:
            report: what the call did.
            seconds: what it took; none for the first step, whose time is compilation.
            expected_images: steps times the global batch.
        """
        self._images += report.images
        self._loss += report.loss * report.images
        self._hits += report.accuracy * report.images
        self._skipped += report.skipped_steps
        self._left_out += expected_images - report.images
        self._last = report
        if seconds is not None:
            self._timed_images += expected_images
            self._seconds += seconds
            self._wait += report.wait_seconds

    def summary(self, flops_per_image: float, peak_flops: float | None) -> dict[str, float]:
        """The interval's metrics; rates are left out if only the first step was taken."""
        assert self._last is not None
        values: dict[str, float] = {
            "loss": self._loss / max(self._images, 1),
            "train_top1": self._hits / max(self._images, 1),
            "gradient_norm": self._last.gradient_norm,
        }
        if self._seconds > 0:
            rate = self._timed_images / self._seconds
            values["images_per_second"] = rate
            values["images_per_second_per_rank"] = rate / self._ranks
            values["data_wait_percent"] = 100.0 * self._wait / self._seconds
            if peak_flops:
                values["mfu_percent"] = 100.0 * rate * flops_per_image / (peak_flops * self._ranks)
        if self._skipped:
            values["skipped_steps"] = self._skipped
        if self._left_out:
            values["images_left_out"] = self._left_out
        return values


class MetricsFile:
    """metrics.jsonl: one JSON object a line, in the order of steps, appended by rank 0."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def attempts(self) -> int:
        """How often the run was started."""
        return sum(line["event"] == "start" for line in self.lines())

    def lines(self) -> list[dict[str, Any]]:
        """All complete lines; a killed writer may leave half a line at the end."""
        if not self.path.exists():
            return []
        found = []
        for text in self.path.read_text().splitlines():
            try:
                found.append(json.loads(text))
            except ValueError:
                continue
        return found

    def rewind(self, step: int) -> None:
        """Drop what a lost attempt wrote after the step that the run continues from."""
        kept = [line for line in self.lines() if line["event"] == "start" or line["step"] <= step]
        scratch = self.path.with_suffix(".partial")
        scratch.write_text("".join(json.dumps(line) + "\n" for line in kept))
        scratch.replace(self.path)

    def append(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Add a line; figures that are not finite, which JSON does not know, are left out."""
        finite = {k: v for k, v in values.items() if not isinstance(v, float) or isfinite(v)}
        with self.path.open("a") as file:
            file.write(
                json.dumps({"event": event, "step": step, "time": time.time(), **finite}) + "\n"
            )
