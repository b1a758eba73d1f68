"""What follows a run besides its own files and console: the interface of leaves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.program import load
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.distributed.request_listener import RequestListener
from trainer.leaves import LEAVES

if TYPE_CHECKING:
    from trainer.checkpoints.writer import Saved


@dataclass(frozen=True)
class Observed:
    """An attempt of a run, as its observers see it."""

    config: TrainConfig
    folder: Path
    """Folder of the run."""
    communicator: Communicator
    equal_after: Callable[[int], int]
    """Returns the next step, at least the given one, after which a call of the loop can end."""
    requests: RequestListener
    """Requests to this rank."""
    say: Callable[[str], None]
    """Prints a line, on rank 0 alone."""


class Observer:
    """Follows one attempt of a run. Every rank has its own, and calls it at the same steps, except
    where it says otherwise. Methods that a class does not override have no effect.
    """

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """Note on rank 0 that the first step has shown that the run works.

        Args:
            parameters: Options of the run.
            tags: Facts that differ between attempts.
        """

    def add(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Note metrics of a step on rank 0, and return at once."""

    def saved(self, checkpoint: "Saved") -> None:
        """Note on rank 0 that a checkpoint is on disk, and return at once. It may be deleted again
        once `CheckpointConfig.keep` newer ones are there.
        """

    def limit_steps(self, step: int, count: int) -> int:
        """Return how many of `count` steps to take in one call, the same on all ranks."""
        del step
        return count

    @property
    def urgent(self) -> bool:
        """Whether all ranks should return from the loop after the current step."""
        return False

    def around(self, step: int) -> AbstractContextManager[Any]:
        """Return a context that the steps after `step` are taken in, in a thread of their own."""
        del step
        return nullcontext()

    def after(self, step: int, *, paused: bool, last: bool) -> None:
        """Act after a call of the loop, in which the ranks may have paused, as `urgent` asks, and
        which may have been the last.
        """

    def end(self, status: int, *, failed: bool) -> None:
        """Note that the attempt ends, with this exit status, and whether by an error."""


def observers(observed: Observed) -> list[Observer]:
    """Return the observers of all leaves for an attempt of a run."""
    return [load(leaf.observer)(observed) for leaf in LEAVES if leaf.observer]


@contextmanager
def around(observed_by: Sequence[Observer], step: int) -> Iterator[None]:
    """Enter the contexts of all observers; see `Observer.around`."""
    with ExitStack() as stack:
        for observer in observed_by:
            stack.enter_context(observer.around(step))
        yield
