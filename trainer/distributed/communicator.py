"""The communication between ranks that a training needs, and a world of one without Horovod."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Backend:
    """Communication backend of a world."""

    built: tuple[str, ...]
    """Those of MPI, Gloo and NCCL that Horovod was built with."""
    controller: str
    """Controller by which ranks agree on the tensors to sum: MPI or Gloo."""
    operations: str
    """Library that sums the gradients: NCCL, MPI or Gloo."""


class Group(Protocol):
    """Ranks that exchange tensors, in graphs and outside of them. All of them must call a method,
    in the same order, with a name that no other exchange in flight has.
    """

    @property
    def index(self) -> int:
        """Place of this rank in the group."""

    @property
    def size(self) -> int:
        """Number of ranks in the group."""

    def sum(self, tensors: Sequence[Any], name: str) -> list[Any]:
        """Sum tensors over the group in one grouped all-reduce."""

    def maximum(self, tensor: Any, name: str) -> Any:
        """Return the largest of each element over the group."""

    def join(self, tensor: Any, name: str) -> Any:
        """Return the tensors of all ranks, concatenated along axis 0 in the order of ranks."""

    def scatter_sum(self, tensor: Any, name: str) -> Any:
        """Sum a tensor over the group, and return this rank's part of the result: equal parts along
        axis 0, which `size` must divide.
        """

    def swap(self, tensor: Any, name: str) -> Any:
        """Send an equal part of a tensor along axis 0 to each rank; return what all have sent to
        this one, in the order of ranks. `size` must divide its rows.
        """

    def to_first(self, tensor: Any, name: str) -> Any:
        """Return what `join` would on the first rank of the group, and no rows on the others."""

    def spread(self, tensor: Any, name: str) -> Any:
        """Return the tensor of the first rank, whose type and shape it has on all ranks."""

    def from_first(self, tensor: Any, rows: Sequence[int], name: str) -> Any:
        """Divide a tensor of the first rank along axis 0, and return this rank's part.

        Args:
            tensor: The tensor on the first rank; on the others one without rows, of the same type
                and shape otherwise.
            rows: Rows of each rank's part.
            name: Name of the exchange.
        """


class Communicator(Protocol):
    """Interface to the world of ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @property
    def everyone(self) -> Group:
        """All ranks."""

    def groups(self, size: int) -> tuple[Group, Group]:
        """Return the group of `size` consecutive ranks that this one is in, and the ranks at the
        same place in theirs; a group of one rank exchanges nothing.

        Args:
            size: 1, or the number of neighbours that the world was joined with.
        """

    @property
    def backend(self) -> Backend | None:
        """Communication backend; None for a world of one."""

    def allreduce(self, gradients: Sequence[Any], counts: Any) -> tuple[list[Any], Any]:
        """Sum gradients and one flat float32 vector over all ranks, inside a graph."""

    def broadcast_variables(self, variables: Sequence[Any]) -> None:
        """Set the variables of every rank to the values of rank 0."""

    def broadcast(self, value: Any) -> Any:
        """Return the plain data of rank 0 on every rank."""

    def gather(self, value: Any) -> list[Any]:
        """Return the plain data of every rank, in the order of ranks."""

    def barrier(self) -> None:
        """Wait until every rank is here."""

    def shutdown(self) -> None:
        """Leave the world."""


class Single:
    """A group of one rank."""

    index, size = 0, 1

    def sum(self, tensors: Sequence[Any], name: str) -> list[Any]:
        del name
        return list(tensors)

    def _same(self, tensor: Any, name: str) -> Any:
        del name
        return tensor

    maximum = join = scatter_sum = swap = to_first = spread = _same

    def from_first(self, tensor: Any, rows: Sequence[int], name: str) -> Any:
        del rows, name
        return tensor


class Alone:
    """A world of one process."""

    rank, size, local_rank, local_size = 0, 1, 0, 1
    everyone = Single()
    backend = None

    def groups(self, size: int) -> tuple[Group, Group]:
        del size
        return self.everyone, self.everyone

    def allreduce(self, gradients: Sequence[Any], counts: Any) -> tuple[list[Any], Any]:
        return list(gradients), counts

    def broadcast_variables(self, variables: Sequence[Any]) -> None:
        """Do nothing; there is no other rank."""

    def broadcast(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def barrier(self) -> None:
        """Return at once; there is no other rank."""

    def shutdown(self) -> None:
        """Do nothing; there is no world to leave."""
