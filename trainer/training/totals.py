"""What a run has done so far, beside its variables; a checkpoint carries it over."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

from trainer.training.metrics import Chrono, Phase


@dataclass
class Progress:
    """Totals over all attempts of a run."""

    chrono: Chrono
    timed_images: int = 0
    """Images of the steps that count for images a second."""
    skipped_batches: int = 0
    """Global batches that were left out as their loss was not finite."""
    roll_backs: int = 0

    @classmethod
    def restored(
        cls, meta: Mapping[str, Any], watch: Callable[[Phase], AbstractContextManager[None]]
    ) -> Self:
        """What a checkpoint holds; `watch` as in `Chrono`."""
        return cls(
            Chrono(totals=meta["seconds"], watch=watch),
            meta["timed_images"],
            meta["skipped_batches"],
            meta["roll_backs"],
        )

    def to_meta(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {
            "seconds": self.chrono.totals,
            "timed_images": self.timed_images,
            "skipped_batches": self.skipped_batches,
            "roll_backs": self.roll_backs,
        }

    def batches(self, step: int) -> int:
        """Global batches of the data that are used up after so many steps."""
        return step + self.skipped_batches

    @property
    def images_per_second(self) -> float | None:
        """Of training alone; none if only the first step was taken."""
        seconds = self.chrono.seconds("train")
        return self.timed_images / seconds if seconds else None
