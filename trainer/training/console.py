"""Console output of a run: a progress bar on a terminal, plain lines elsewhere."""

import csv
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import ceil, isclose
from pathlib import Path
from typing import Final, Self

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from common.text import duration
from trainer.distributed.rank import launched_as
from trainer.leaves import TASKS
from trainer.training.plan import Plan

CLASSES: Final = "classes.csv"
"""File of a run with a line for each class, which every task writes."""
LISTED: Final = 10
"""Most classes that are printed."""
MINUTES: Final = 99
"""Longest time that is printed without minutes, in seconds."""
NAME_LENGTH: Final = 40
"""Most letters of the name of a class."""
WIDE: Final = 100
"""Width of a terminal from which the bar has the number of images as well, in characters."""
_TRAINING = {
    task.training.key: (task.training.label.replace("training", "train"), "{:.1%}")
    for task in TASKS.values()
}
_UNITS = {
    "training_loss": ("loss", "{:.4f}"),
    "objective": ("objective", "{:.4f}"),
    **_TRAINING,
    "learning_rate": ("lr", "{:.4g}"),
    "images_per_second": ("images/s", "{:.1f}"),
    "images_per_second_per_rank": ("per rank", "{:.1f}"),
    "data_wait_percent": ("data wait", "{:.1f} %"),
    "gradient_norm": ("grad norm", "{:.3g}"),
    "loss_scale": ("loss scale", "{:g}"),
    "mfu_percent": ("MFU", "{:.1f} %"),
    "gpu_memory_gb": ("GPU memory", "{:.1f} GB"),
    "skipped_steps": ("skipped steps", "{:.0f}"),
    "images_left_out": ("images left out", "{:.0f}"),
}
_DETAILS = {
    "objective",
    "learning_rate",
    "images_per_second_per_rank",
    "data_wait_percent",
    "gradient_norm",
    "loss_scale",
    "mfu_percent",
    "gpu_memory_gb",
}
"""Keys that are printed only in detail."""


class Console:
    """Console of a run; only rank 0 prints, those of the other ranks are silent."""

    def __init__(
        self,
        plan: Plan,
        *,
        silent: bool,
        detail: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        plan: Sizes and lengths of the run.
        silent: Whether nothing is printed.
        detail: See `LogConfig.detail`.
        clock: Clock in seconds; tests replace it.
        """
        self._silent, self._plan, self._clock = silent, plan, clock
        self.detail = detail
        self._begun: tuple[int, float] | None = None
        self._rich = RichConsole(highlight=False, soft_wrap=True)
        steps = (MofNCompleteColumn(), TextColumn("steps")) if detail else ()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            *steps,
            TextColumn("{task.fields[figures]}", markup=False),
            console=self._rich,
            transient=True,
            expand=True,
            disable=silent or not _watched(),
        )
        self._task = self._bar.add_task("compiling", total=plan.last_step, figures="")
        self._speed = self._metric = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._bar.stop()

    def progress(self, step: int) -> None:
        """Move the bar; called from the heartbeat, so that it also moves during a call."""
        if self._bar.disable:
            return
        images = self.images(step) if step and self._rich.width >= WIDE else ""
        figures = (images, self._speed, self._metric, self._time_left(step))
        self._bar.update(
            self._task,
            completed=step,
            description=self.epoch(step) if step else "compiling",
            figures="  ".join(filter(None, figures)),
        )

    def say(self, text: str) -> None:
        """Print a line."""
        if self._silent:
            return
        # A run continues, and saves, when its terminal is gone.
        with suppress(OSError):
            self._rich.print(text, markup=False, emoji=False)
            sys.stdout.flush()

    def begin(self, step: int) -> None:
        """Note that steps are compiled, after which the time of each tells what is left."""
        self._begun = step, self._clock()

    def left(self, step: int) -> float | None:
        """Return the seconds to the last step, at the pace since `begin`; evaluations and saves
        count. None before a step was timed.
        """
        if self._begun is None or step <= self._begun[0]:
            return None
        taken, seconds = step - self._begun[0], self._clock() - self._begun[1]
        return seconds / taken * (self._plan.last_step - step)

    def _time_left(self, step: int) -> str:
        left = self.left(step)
        if left is None or step >= self._plan.last_step:
            return ""
        seconds = ceil(left)
        return f"{f'{seconds} s' if seconds <= MINUTES else duration(seconds)} left"

    def epoch(self, step: int) -> str:
        """Return how many epochs are done after a step."""
        # The last batch of a run may reach into another epoch.
        epochs = self._plan.epochs
        return f"epoch {min(self._plan.epoch_of(step), epochs):.2f} of {epochs}"

    def images(self, step: int) -> str:
        """Return how many images were taken by the end of a step, each once per epoch."""
        plan = self._plan
        limit = plan.examples * plan.epochs
        images, last = (min(n * plan.global_batch, limit) for n in (step, plan.last_step))
        return f"{images:>{len(f'{last:,}')},} of {last:,} images"

    def evaluation(self, step: int, metrics: Sequence[str], loss: float, images: int) -> None:
        """Print a line about an evaluation, and show its first metric with the bar.

        Args:
            step: Steps done.
            metrics: The evaluation's metrics in words.
            loss: Mean loss of the held-out images.
            images: Number of held-out images.
        """
        first, *_ = metrics
        self._metric = f"held-out {first.partition(' (')[0]}"
        words = f"held-out {'  '.join(metrics)}  loss {loss:.4f}  ({images:,} images)"
        self.say(f"{self._prefix(step)}{self.epoch(step)}  {words}")

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Print a line of metrics: the loss that may be compared with that of an evaluation, in
        detail the one that the optimizer lowers if that differs, and the time that is left.
        """
        loss, plain = values.get("loss"), values.get("training_loss")
        # Both are added up in different orders.
        if loss is not None and plain is not None and not isclose(loss, plain, rel_tol=1e-4):
            values = {**values, "objective": loss}
        known = {
            key: f"{label} {form.format(values[key])}"
            for key, (label, form) in _UNITS.items()
            if key in values and (self.detail or key not in _DETAILS)
        }
        if "images_per_second" in values:
            self._speed = f"{values['images_per_second']:.0f} images/s"
        if not self._metric.startswith("held-out"):
            self._metric = next((known[key] for key in _TRAINING if key in known), "")
        place = f"{self._prefix(step)}{self.epoch(step)}  {self.images(step)}"
        self.say("  ".join(filter(None, (place, *known.values(), self._time_left(step)))))

    def _prefix(self, step: int) -> str:
        return f"step {step:>6}  " if self.detail else ""


def class_lines(run: Path) -> list[str]:
    """Return the lines of a table of the classes of a run, from the file that its task has written:
    all of them if they are few, or else the worst; none without the file.
    """
    try:
        with (run / CLASSES).open(encoding="utf-8", newline="") as file:
            heads, *rows = csv.reader(file)
    except (OSError, ValueError, csv.Error):
        return []
    parts = {place for row in rows for place, text in enumerate(row) if place and "." in text}
    worst = sorted(rows, key=lambda row: float(row[min(parts)] or 2)) if parts else rows
    shown = rows if len(rows) <= LISTED else worst[:LISTED]
    table = [heads, *([_cell(row[n], n in parts) for n in range(len(row))] for row in shown)]
    table = [[name[:NAME_LENGTH], *row] for name, *row in table]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table
    ]
    left = len(rows) - len(shown)
    return [*lines, f"({left:,} better classes are in {CLASSES})"] if left else lines


def _cell(text: str, is_part: bool) -> str:  # noqa: FBT001
    return f"{float(text):.2%}" if is_part and text else text or "-"


def detailed(env: Mapping[str, str]) -> bool:
    """Return whether a run prints details unless its configuration says otherwise."""
    launched = launched_as(env)
    elsewhere = launched is not None and launched.launcher != "Horovod"
    return "AZUREML_RUN_ID" in env or elsewhere


def _watched() -> bool:
    """Return whether the output is a terminal that a person watches."""
    # Open MPI gives every rank a pseudo-terminal and writes its output to a log.
    launched = launched_as(os.environ)
    return sys.stdout.isatty() and not (launched and launched.launcher == "Open MPI")
