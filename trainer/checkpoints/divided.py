"""State of which each rank holds a part, and which a checkpoint holds whole."""

from typing import Protocol

from trainer.checkpoints.format import Tensors


class DividedState(Protocol):
    """Tensors that are divided over ranks. In a checkpoint they are whole, so that any number of
    ranks, and the undivided model, continue from it.
    """

    def gather(self) -> Tensors:
        """Return the whole tensors by name on rank 0, and nothing elsewhere. Every rank must call
        it.
        """

    def scatter(self, tensors: Tensors) -> None:
        """Set every rank's parts. Every rank must call it.

        Args:
            tensors: All tensors of a checkpoint on rank 0, others than these included; ignored
                elsewhere.
        """

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the whole tensors, by name."""
