"""Metrics of a run's steps, the times of its phases, and the position in its data.

Time is split into phases, and only `train` counts for images/s: the first step (tracing and
compilation), evaluations and checkpoints have phases of their own. `data_wait_percent` is the part
of `train` in which rank 0 waited for its next batch; above a few percent the input is the
bottleneck.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

from trainer.training.loop import LoopReport

Phase = Literal["compile", "train", "evaluation", "checkpoint"]


class PhaseTimer:
    """Seconds spent in each phase, carried over restarts."""

    def __init__(
        self,
        watch: Callable[[Phase], AbstractContextManager[None]] = lambda _: nullcontext(),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args:
        watch: Context manager to enter for the duration of each phase.
        clock: Clock in seconds; tests replace it.
        """
        self._watch, self._clock = watch, clock
        self.by_phase: dict[str, float] = {}

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Add the time of a block to a phase."""
        start = self._clock()
        try:
            with self._watch(name):
                yield
        finally:
            self.by_phase[name] = self.seconds(name) + self._clock() - start

    def seconds(self, name: Phase) -> float:
        """Return the seconds spent in one phase."""
        return self.by_phase.get(name, 0.0)

    @property
    def total(self) -> float:
        """Seconds in all phases."""
        return sum(self.by_phase.values())


class Totals:
    """Totals of a run over all its attempts, stored in checkpoints with the variables."""

    def __init__(self, timer: PhaseTimer, global_batch: int) -> None:
        self.timer, self._global_batch = timer, global_batch
        self.timed_images = 0
        """Images of the steps that count towards images/s."""
        self.skipped_batches = 0
        """Global batches left out because their loss was not finite."""
        self.rollbacks = 0

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Restore the totals from a checkpoint."""
        self.timer.by_phase = dict(meta["seconds"])
        self.timed_images = meta["timed_images"]
        self.skipped_batches = meta["skipped_batches"]
        self.rollbacks = meta["roll_backs"]

    def to_meta(self, step: int) -> dict[str, Any]:
        """Return the totals for the checkpoint of a step."""
        return {
            "seconds": self.timer.by_phase,
            "timed_images": self.timed_images,
            "skipped_batches": self.skipped_batches,
            "roll_backs": self.rollbacks,
            "position": self.position(step),
        }

    def roll_back(self, step: int, to: int) -> None:
        """Record that training continues from the step `to`, with the images after those of `step`.

        The totals of time are kept, because that time was spent.
        """
        self.skipped_batches += step - to
        self.rollbacks += 1

    def position(self, step: int) -> int:
        """Return the number of images, over all epochs, used after `step` steps."""
        return (step + self.skipped_batches) * self._global_batch

    @property
    def images_per_second(self) -> float | None:
        """Images/s of training alone; None if only the first step was taken."""
        seconds = self.timer.seconds("train")
        return self.timed_images / seconds if seconds else None


class Interval:
    """Metrics of the steps between two reports."""

    def __init__(self, ranks: int, score: str) -> None:
        """Args:
        ranks: Number of ranks.
        score: Key of the task's training metric.
        """
        self._ranks, self._score_key = ranks, score
        self.reset()

    def reset(self) -> None:
        """Begin a new interval. `plain_loss` is the sum over this rank's images that count of the
        loss without smoothing and weights.
        """
        self._images = self._timed_images = self._skipped = self._left_out = 0
        self._loss = self._score = self._seconds = self._wait = self.plain_loss = 0.0
        self._last: LoopReport | None = None

    def add(self, report: LoopReport, seconds: float | None, expected_images: int) -> None:
        """Add the steps of one call.

        Args:
            report: Result of the call.
            seconds: Duration of the call; None for the first step, whose time is compilation.
            expected_images: Steps times the global batch.
        """
        self._images += report.images
        self._loss += report.loss * report.images
        self._score += report.score * report.images
        self.plain_loss += report.plain_loss
        self._skipped += report.skipped_steps
        self._left_out += expected_images - report.images
        self._last = report
        if seconds is not None:
            self._timed_images += expected_images
            self._seconds += seconds
            self._wait += report.wait_seconds

    def summary(
        self, plain_loss: float, flops_per_image: float, peak_flops: float | None
    ) -> dict[str, float]:
        """Return the interval's metrics, without rates if only the first step was taken.

        Args:
            plain_loss: Sum of `plain_loss` over all ranks.
            flops_per_image: Operations of a training step for an image.
            peak_flops: Peak of a rank's device; None if it is not known.
        """
        assert self._last is not None
        values: dict[str, float] = {
            "loss": self._loss / max(self._images, 1),
            "training_loss": plain_loss / max(self._images, 1),
            self._score_key: self._score / max(self._images, 1),
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
