"""What follows a run besides its own files and console: the interface of leaves."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.program import load
from trainer.config import TrainConfig
from trainer.distributed.communicator import Communicator
from trainer.distributed.request_listener import RequestListener
from trainer.leaf import Exchanges
from trainer.leaves import LEAVES


@dataclass(frozen=True)
class Observed:
    """An attempt of a run, as its observers see it."""

    config: TrainConfig
    folder: Path
    """Folder of the run."""
    communicator: Communicator
    exchanges: Exchanges
    """After which steps a call of the loop can end."""
    requests: RequestListener
    """Requests to this rank."""
    say: Callable[[str], None]
    """Prints a line, on rank 0 alone."""


class Observer:
    """Follows one attempt of a run. Every rank has its own, and calls it at the same steps, except
    where it says otherwise. What a class does not override has no effect.
    """

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """Note on rank 0 that the first step has shown that the run works.

        Args:
            parameters: Options of the run.
            tags: Facts that differ between attempts.
        """

    def add(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """Note metrics of a step on rank 0, and return at once."""

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

    def after(self, step: int, *, paused: bool) -> None:
        """Act after a call of the loop; see `urgent` about `paused`."""

    def close(self, step: int) -> None:
        """Note that no other step follows."""

    def end(self, status: int, *, failed: bool) -> None:
        """Note that the attempt ends, with this exit status, and whether by an error."""


class Observers(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = observers

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """See `Observer`."""
        for one in self._all:
            one.begin(parameters, tags)

    def add(self, event: str, step: int, values: Mapping[str, float]) -> None:
        """See `Observer`."""
        for one in self._all:
            one.add(event, step, values)

    def limit_steps(self, step: int, count: int) -> int:
        """See `Observer`."""
        return min([count, *(one.limit_steps(step, count) for one in self._all)])

    @property
    def urgent(self) -> bool:
        """See `Observer`."""
        return any(one.urgent for one in self._all)

    @contextmanager
    def around(self, step: int) -> Iterator[None]:
        """See `Observer`."""
        with ExitStack() as stack:
            for one in self._all:
                stack.enter_context(one.around(step))
            yield

    def after(self, step: int, *, paused: bool) -> None:
        """See `Observer`."""
        for one in self._all:
            one.after(step, paused=paused)

    def close(self, step: int) -> None:
        """See `Observer`."""
        for one in self._all:
            one.close(step)

    def end(self, status: int, *, failed: bool) -> None:
        """See `Observer`."""
        for one in self._all:
            one.end(status, failed=failed)


def observers(observed: Observed) -> Observer:
    """Return the observers of all leaves for an attempt of a run."""
    return Observers([load(leaf.observer)(observed) for leaf in LEAVES if leaf.observer])
