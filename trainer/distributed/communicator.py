"""What a training needs of its world of ranks; a world of one, which needs no Horovod."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Backend:
    """What a world communicates by."""

    built: tuple[str, ...]
    """What Horovod was built with, of MPI, Gloo and NCCL."""
    controller: str
    """By what ranks agree on what to sum: MPI or Gloo."""
    operations: str
    """By what gradients are summed."""


class Communicator(Protocol):
    """What a training needs of its world."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @property
    def backend(self) -> Backend | None:
        """What it communicates by; None for a world of one."""

    def allreduce(self, gradients: Sequence[Any], extras: Any) -> tuple[list[Any], Any]:
        """Sum gradients and one flat float32 vector over all ranks, inside a graph."""

    def broadcast_variables(self, variables: Sequence[Any]) -> None:
        """Give every rank the values of rank 0."""

    def broadcast(self, value: Any) -> Any:
        """Give every rank the plain data of rank 0."""

    def gather(self, value: Any) -> list[Any]:
        """The plain data of every rank, in the order of ranks."""

    def sum(self, values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """The float64 array summed over ranks."""

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def shutdown(self) -> None:
        """Leave the world."""


class Alone:
    """A world of one process."""

    rank, size, local_rank, local_size = 0, 1, 0, 1
    backend = None

    def allreduce(self, gradients: Sequence[Any], extras: Any) -> tuple[list[Any], Any]:
        return list(gradients), extras

    def broadcast_variables(self, variables: Sequence[Any]) -> None:
        """Nobody to tell."""

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def sum(self, values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        return values

    def barrier(self) -> None:
        """Nobody to wait for."""

    def shutdown(self) -> None:
        """Nothing to leave."""
