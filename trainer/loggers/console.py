"""Console output of a run: a progress bar on a terminal, plain lines elsewhere."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from trainer.distributed.rank import launched_as
from trainer.leaves import TASKS

_UNITS = {
    "loss": ("loss", "{:.4f}"),
    **{
        task.training.key: (task.training.label.replace("training", "train"), "{:.1%}")
        for task in TASKS.values()
    },
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


class Console:
    """Console of a run; only rank 0 prints, those of the other ranks are silent."""

    def __init__(self, steps: int, *, silent: bool) -> None:
        self._silent = silent
        self._rich = RichConsole(highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TimeRemainingColumn(),
            console=self._rich,
            transient=True,
            disable=silent or not _watched(),
        )
        self._task = self._bar.add_task("compiling", total=steps)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._bar.stop()

    def progress(self, step: int) -> None:
        """Move the bar; called from the heartbeat, so that it also moves during a call."""
        self._bar.update(
            self._task, completed=step, description="training" if step else "compiling"
        )

    def say(self, text: str) -> None:
        """Print a line."""
        if self._silent:
            return
        # A run continues, and saves, when its terminal is gone.
        with suppress(OSError):
            self._rich.print(text, markup=False)
            sys.stdout.flush()

    def metrics(self, step: int, epoch: float, values: Mapping[str, float]) -> None:
        """Print a line of metrics."""
        shown = [
            f"{label} {form.format(values[key])}"
            for key, (label, form) in _UNITS.items()
            if key in values
        ]
        self.say(f"step {step:>6}  epoch {epoch:6.2f}  " + "  ".join(shown))


def _watched() -> bool:
    """Return whether the output is a terminal that a person watches."""
    # Open MPI gives every rank a pseudo-terminal and writes its output to a log.
    launched = launched_as(os.environ)
    return sys.stdout.isatty() and not (launched and launched.launcher == "Open MPI")
