"""A world of several ranks, and how it is joined. The only file that imports Horovod.

A world of one needs no Horovod at all: `connect` returns `Alone`, whose sums are identities. In a
larger world it returns `Horovod`, after checking that Horovod's world is the one that the launcher
started.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import UserError
from trainer.config import ExchangeConfig
from trainer.distributed.communicator import Alone, Backend, Communicator, Group, Single
from trainer.distributed.rank import Rank, gloo_under_mpi, launched_as
from trainer.errors import PeerError

NAME_SECONDS = 60.0
"""Seconds to wait for name resolution. A resolver whose servers do not respond gives up after 10 to
30 s."""


@contextmanager
def rendezvous(address: str = "127.0.0.1") -> Iterator[int]:
    """Serve the rendezvous by which Gloo's ranks find each other; yield its port. Does not need
    TensorFlow.
    """
    server = _serve(address, 0)
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _serve(address: str, port: int) -> Any:
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    server = RendezvousHTTPServer((address, port), RendezvousHandler, 0)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="rendezvous", daemon=True).start()
    return server


class HorovodGroup:
    """A group of several ranks; see `Group`."""

    def __init__(self, horovod: Any, process_set: Any, rank: int, members: Sequence[int]) -> None:
        self._module = horovod
        # With the scope of a graph, which numbers its functions, the names of ranks whose graphs
        # differ would differ as well, and the ranks would wait for each other forever.
        self._given = {"ignore_name_scope": True, "process_set": process_set}
        self._first = members[0]
        self.index, self.size = members.index(rank), len(members)

    def sum(self, tensors: Sequence[Any], name: str) -> list[Any]:
        result = self._module.grouped_allreduce(
            list(tensors), op=self._module.Sum, name=name, **self._given
        )
        return list(result)

    def maximum(self, tensor: Any, name: str) -> Any:
        return self._module.allreduce(tensor, op=self._module.Max, name=name, **self._given)

    def join(self, tensor: Any, name: str) -> Any:
        return self._module.allgather(tensor, name=name, **self._given)

    def scatter_sum(self, tensor: Any, name: str) -> Any:
        return self._module.reducescatter(tensor, op=self._module.Sum, name=name, **self._given)

    def swap(self, tensor: Any, name: str) -> Any:
        return self._module.alltoall(tensor, name=name, **self._given)

    def to_first(self, tensor: Any, name: str) -> Any:
        # An all-gather would take the memory of the whole on every rank.
        import tensorflow as tf

        splits = tf.concat([tf.shape(tensor)[:1], tf.zeros([self.size - 1], tf.int32)], 0)
        return self._alltoall(tensor, splits, name)

    def spread(self, tensor: Any, name: str) -> Any:
        return self._module.broadcast(tensor, self._first, name=name, **self._given)

    def from_first(self, tensor: Any, rows: Sequence[int], name: str) -> Any:
        splits = list(rows) if self.index == 0 else [0] * self.size
        return self._alltoall(tensor, splits, name)

    def _alltoall(self, tensor: Any, splits: Any, name: str) -> Any:
        received = self._module.alltoall(tensor, splits, name=name, **self._given)
        return received[0]


class Horovod:
    """A world of several ranks. `horovod.tensorflow` is the module, already initialised."""

    def __init__(self, horovod: Any, config: ExchangeConfig, sets: "ProcessSets | None") -> None:
        self.module = horovod
        """The module `horovod.tensorflow`; benchmarks use it to compare with Horovod's own API."""
        self._config = config
        self.rank, self.size = horovod.rank(), horovod.size()
        self.local_rank, self.local_size = horovod.local_rank(), horovod.local_size()
        world = horovod.global_process_set
        self.everyone: Group = HorovodGroup(horovod, world, self.rank, range(self.size))
        self._sets = sets

    def groups(self, size: int) -> tuple[Group, Group]:
        if size == 1 or self._sets is None:
            return Single(), self.everyone
        return self._sets.groups(self.module, self.rank)

    @property
    def backend(self) -> Backend:
        import tensorflow as tf

        names = {"MPI": "mpi_built", "Gloo": "gloo_built", "NCCL": "nccl_built"}
        built = tuple(name for name, asked in names.items() if getattr(self.module, asked)())
        controller = "MPI" if self.module.mpi_enabled() else "Gloo"
        if "NCCL" in built and tf.config.get_visible_devices("GPU"):
            operations = "NCCL"
        else:
            # By default sums on the CPU use the same library as the controller.
            asked = os.environ.get("HOROVOD_CPU_OPERATIONS", controller).lower()
            operations = {"mpi": "MPI", "gloo": "Gloo"}.get(asked, asked)
        return Backend(built, controller, operations)

    def allreduce(self, gradients: Sequence[Any], counts: Any) -> tuple[list[Any], Any]:
        """Sum in one grouped all-reduce, or in several of about equal size with names of their own.

        With fp16 the gradients are sent and added in float16; the counts are never compressed.
        """
        sizes = [int(np.prod(gradient.shape)) for gradient in gradients]
        # The counts are sent even if there are no gradients.
        groups = split_by_size(sizes, self._config.groups) or [[]]
        reduced: list[Any] = []
        for number, group in enumerate(groups):
            tensors = [gradients[index] for index in group]
            if self._config.compression == "fp16":
                import tensorflow as tf

                halves = [tf.cast(tensor, tf.float16) for tensor in tensors]
                sums = self._sum(halves, f"gradients{number}")
                reduced += [tf.cast(value, tf.float32) for value in sums]
                if number == len(groups) - 1:
                    counts = self._sum([counts], "extras")[0]
            elif number == len(groups) - 1:
                *sums, counts = self._sum([*tensors, counts], f"gradients{number}")
                reduced += sums
            else:
                reduced += self._sum(tensors, f"gradients{number}")
        return reduced, counts

    def _sum(self, tensors: list[Any], name: str) -> list[Any]:
        result = self.module.grouped_allreduce(tensors, op=self.module.Sum, name=name)
        return list(result)

    def broadcast_variables(self, variables: Sequence[Any]) -> None:
        import tensorflow as tf

        def graph() -> None:
            for number, variable in enumerate(variables):
                value = self.module.broadcast(variable.read_value(), 0, name=f"variable{number}")
                variable.assign(value)

        # All at once, because one after the other each would wait for a cycle of its own.
        tf.function(graph, autograph=False)()

    def broadcast(self, value: Any) -> Any:
        return self.gather(value)[0]

    def gather(self, value: Any) -> list[Any]:
        import tensorflow as tf

        data = json.dumps(value).encode()
        lengths = self.module.allgather(tf.constant([len(data)], tf.int64), name="lengths").numpy()
        joined = self.module.allgather(
            tf.constant(np.frombuffer(data, np.uint8)), name="bytes"
        ).numpy()
        ends = np.cumsum(lengths)
        return [
            json.loads(joined[end - length : end].tobytes())
            for length, end in zip(lengths, ends, strict=True)
        ]

    def barrier(self) -> None:
        self.gather(None)

    def shutdown(self) -> None:
        self.module.shutdown()


class ProcessSets:
    """The groups of ranks that exchange among themselves: in a world of 6 ranks with 2 neighbours,
    {0, 1}, {2, 3} and {4, 5} are consecutive; {0, 2, 4} and {1, 3, 5} have the same place.

    Every rank must declare the same sets in the same order before Horovod starts.
    """

    def __init__(self, horovod: Any, ranks: int, size: int) -> None:
        self._consecutive = [range(first, first + size) for first in range(0, ranks, size)]
        self._same_place = [range(place, ranks, size) for place in range(size)]
        # Horovod refuses a set of all ranks, which exists already; a set of one exchanges nothing.
        self._sets = {
            group: horovod.ProcessSet(list(group))
            for group in (*self._consecutive, *self._same_place)
            if 1 < len(group) < ranks
        }

    @property
    def declared(self) -> list[Any]:
        """The sets for `horovod.init`."""
        return list(self._sets.values())

    def groups(self, horovod: Any, rank: int) -> tuple[Group, Group]:
        """See `Communicator.groups`."""
        near, alike = (
            next(group for group in groups if rank in group)
            for groups in (self._consecutive, self._same_place)
        )
        return self._group(horovod, near, rank), self._group(horovod, alike, rank)

    def _group(self, horovod: Any, ranks: range, rank: int) -> Group:
        if len(ranks) == 1:
            return Single()
        members = self._sets.get(ranks, horovod.global_process_set)
        return HorovodGroup(horovod, members, rank, ranks)


def connect(config: ExchangeConfig, neighbours: int = 1) -> Communicator:
    """Join the world that the launcher started, or return a world of one without a launcher.

    Args:
        config: How ranks find each other.
        neighbours: Consecutive ranks that exchange among themselves; see `Communicator.groups`.

    Raises:
        UserError: Horovod's world is not the launcher's. Otherwise several independent runs could
        be mistaken for one.
    """
    launched = launched_as(os.environ)
    if launched is None or launched.size == 1:
        if config.timeline is not None:
            print(
                "warning: --exchange.timeline: a single rank exchanges nothing; no file is written",
                file=sys.stderr,
            )
        return Alone()
    # Horovod reads these when it starts. Variables that the user has set take precedence, except
    # over the option that names a file.
    for name, value in {
        "HOROVOD_CYCLE_TIME": f"{config.cycle_time_ms:g}",
        "HOROVOD_FUSION_THRESHOLD": str(config.fusion_threshold_mb << 20),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(config.timeout_seconds),
    }.items():
        os.environ.setdefault(name, value)
    if config.timeline is not None:
        Path(config.timeline).absolute().parent.mkdir(parents=True, exist_ok=True)
        os.environ["HOROVOD_TIMELINE"] = config.timeline

    import horovod.tensorflow as hvd

    if launched.launcher != "Horovod" and not hvd.mpi_built():
        os.environ.update(gloo_under_mpi(os.environ, launched))
        _meet(launched, config.timeout_seconds)
    if uses_gloo(hvd, os.environ):
        check_own_name()
    sets = None
    # Any other number is refused with the plan of the run.
    if neighbours > 1 and launched.size % neighbours == 0:
        sets = ProcessSets(hvd, launched.size, neighbours)
    hvd.init(process_sets=sets.declared if sets else None)
    if hvd.size() != launched.size:
        raise UserError(
            f"{launched.launcher} started {launched.size} processes, but Horovod sees {hvd.size()}:"
            " they would train apart. Use a Horovod built for this launcher, or horovodrun"
        )
    return Horovod(hvd, config, sets)


def uses_gloo(hvd: Any, env: Mapping[str, str]) -> bool:
    """Return whether Horovod will use Gloo: because it is told to, or has no MPI."""
    asked = (env.get(f"HOROVOD_{name}", "").lower() for name in ("CONTROLLER", "CPU_OPERATIONS"))
    return not hvd.mpi_built() or "gloo" in asked


def _meet(launched: Rank, timeout: float) -> None:
    """Serve the rendezvous on rank 0, and wait for it on the other ranks."""
    address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"]
    port = int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    if launched.rank == 0:
        try:
            # Stays open until the process ends, because a slower rank may still be reading from it.
            _serve("", port)
        except OSError as error:
            raise UserError(
                f"rank 0 cannot listen on port {port} ({error}); set"
                " HOROVOD_GLOO_RENDEZVOUS_PORT to a free one"
            ) from error
        return
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((address, port), timeout=5).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise PeerError(f"rank 0 does not respond at {address}:{port} ({error})") from error
            time.sleep(0.1)
        else:
            return


def split_by_size(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Split a list into consecutive, non-empty groups of about equal size; return their indices."""
    total, done = sum(sizes), 0
    parts: list[list[int]] = [[] for _ in range(groups)]
    for index, size in enumerate(sizes):
        parts[min(done * groups // max(total, 1), groups - 1)].append(index)
        done += size
    return [part for part in parts if part]


def check_own_name(seconds: float = NAME_SECONDS) -> None:
    """Check that this machine's host name resolves to an address of this machine.

    Gloo (in Horovod 0.28.1) resolves the machine's own host name, whatever interface it was told to
    use. If the name does not resolve, it ends with a segmentation fault; if the address is not one
    of the machine's, with an abort; neither says what to do. The usual case is a container whose
    name is missing from /etc/hosts.

    Args:
        seconds: How long to wait for name resolution.

    Raises:
        UserError: The name does not resolve to an address of this machine, or not in time.
    """
    name = socket.gethostname()
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(_name_fault(name)), daemon=True)
    asking.start()
    asking.join(seconds)
    fault = answers[0] if answers else f"does not resolve within {seconds:g} s"
    if fault:
        raise UserError(
            f"this machine's host name, {name!r}, {fault}; Horovod's Gloo would crash. Add the line"
            f" '127.0.0.1 {name}' to /etc/hosts (the machine's address instead of 127.0.0.1 if"
            " ranks run on several machines), or start the container with --uts host or, on one"
            " machine, --hostname localhost"
        )


def _name_fault(name: str) -> str:
    """Return the fault of a host name, as the end of a sentence; empty if it is valid."""
    try:
        answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"does not resolve ({error.strerror})"
    if any(_is_ours(family, address) for family, _, _, _, address in answers):
        return ""
    shown = ", ".join(dict.fromkeys(str(address[0]) for *_, address in answers))
    return f"resolves to {shown}, which is not an address of this machine"


def _is_ours(family: int, address: Any) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
