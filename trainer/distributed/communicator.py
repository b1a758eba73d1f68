"""The communication between ranks that a training needs, and a world of one without Horovod."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Backend:
    """Communication backend of a world."""

    built: tuple[str, ...]
    """Those of MPI, Gloo and NCCL that Horovod was built with."""
    controller: str
    """Controller by which ranks agree on the tensors to sum: MPI or Gloo."""
    operations: str
    """Library that sums the gradients: NCCL, MPI or Gloo."""


class Communicator(Protocol):
    """Interface to the world of ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @property
    def backend(self) -> Backend | None:
        """Communication backend; None for a world of one."""

    def allreduce(self, gradients: Sequence[Any], extras: Any) -> tuple[list[Any], Any]:
        """Sum gradients and one flat float32 vector over all ranks, inside a graph."""

    def broadcast_variables(self, variables: Sequence[Any]) -> None:
        """Set the variables of every rank to the values of rank 0."""

    def broadcast(self, value: Any) -> Any:
        """Return the plain data of rank 0 on every rank."""

    def gather(self, value: Any) -> list[Any]:
        """Return the plain data of every rank, in the order of ranks."""

    def sum(self, values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """Return a float64 array summed over ranks."""

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
        """Do nothing; there is no other rank."""

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def sum(self, values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        return values

    def barrier(self) -> None:
        """Return at once; there is no other rank."""

    def shutdown(self) -> None:
        """Do nothing; there is no world to leave."""
