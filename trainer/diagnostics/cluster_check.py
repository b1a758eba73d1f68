"""A check of a cluster before a run, from every rank.

    python -m trainer.diagnostics.cluster_check

Sums buffers of several sizes over all ranks, as training sums its gradients, looks for InfiniBand,
and reads the data set for a while. Rank 0 writes the results as JSON.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import tensorflow as tf

from common.annotations import Bounds
from common.arguments import parse
from common.errors import UserError
from trainer.config import ExchangeConfig, Positive
from trainer.diagnostics import infiniband
from trainer.diagnostics.device import device_name, set_up_device
from trainer.diagnostics.environment import environment
from trainer.distributed.communicator import Communicator
from trainer.distributed.horovod import connect
from trainer.errors import DataError
from trainer.presets import PRESETS

MIB = 1 << 20
READ_BYTES = 8 * MIB
"""Bytes per read; several of the blocks of 2 MB in which a mount reads ahead."""


@dataclass(frozen=True)
class ClusterCheck:
    """Measure sums over all ranks, look for InfiniBand, and read a data set if one is given."""

    output: str | None = None
    """File for the results, which are printed in any case."""

    data: str | None = None
    """Folder of a data set to read."""

    sizes_mib: Annotated[tuple[int, ...], Positive] = (32, 64, 128, 256)
    """Buffers to sum, in MiB of float32."""

    rounds: Annotated[int, Positive] = 20
    """Timed sums of each size, after two that are not timed."""

    read_seconds: Annotated[float, Bounds(above=0)] = 30.0
    """Seconds for which every node reads."""


def main(argv: Sequence[str] | None = None) -> int:
    """Check the cluster and return an exit status, one of those of `ml-trainer`."""
    try:
        run(parse(ClusterCheck(), "cluster_check", sys.argv[1:] if argv is None else argv))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def run(options: ClusterCheck) -> None:
    """Measure on all ranks, and print and write the results on rank 0.

    Raises:
        DataError: The data folder has no files with content.
    """
    communicator = connect(ExchangeConfig())
    try:
        set_up_device(PRESETS["synthetic"], communicator)
        fabric = infiniband.look(os.environ)
        here = {"adapters": fabric.adapters, "infiniband_fault": fabric.fault}
        everywhere = communicator.gather(here)
        gpus = communicator.gather(device_name())
        sums = [_sum(communicator, size * MIB, options.rounds) for size in options.sizes_mib]
        read = _read_everywhere(communicator, options)
        if communicator.rank == 0:
            result = {
                "ranks": communicator.size,
                "ranks_per_node": communicator.local_size,
                "infiniband": not any(node["infiniband_fault"] for node in everywhere),
                "nodes": everywhere[:: communicator.local_size],
                "sums": sums,
                "read_bytes_per_second": read,
                "environment": environment(gpus),
            }
            _tell(result, options.output)
        communicator.barrier()
    finally:
        communicator.shutdown()


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Return bytes/s over the slowest link of a ring: 2 (n - 1) / n times the buffer, by its time.

    NVIDIA's nccl-tests report the same figure, which makes different world sizes comparable.
    """
    return 2 * (ranks - 1) / ranks * size / seconds


def read_rate(folder: Path, seconds: float, rank: int = 0, ranks: int = 1) -> float:
    """Read the files of a folder one after the other and return the rate in bytes/s.

    Args:
        folder: Folder of a data set, none of which has been read yet.
        seconds: Time after which to stop.
        rank: Number of this reader; each starts with other files.
        ranks: Number of readers that read at the same time.

    Raises:
        DataError: No file has content.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    if not files:
        raise DataError(f"{folder}: has no files with content to read")
    first = rank * len(files) // ranks
    begin, total = time.perf_counter(), 0
    for size in _chunks([*files[first:], *files[:first]]):
        total += size
        if time.perf_counter() - begin >= seconds:
            break
    return total / (time.perf_counter() - begin)


def _chunks(files: Sequence[Path]) -> Iterator[int]:
    for path in files:
        with path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                yield len(chunk)


def _sum(communicator: Communicator, size: int, rounds: int) -> dict[str, Any]:
    """Measure one sum: the median of the rounds, on the rank where it took longest."""
    buffer, extra = tf.ones([size // 4]), tf.zeros([1])

    def graph() -> Any:
        (summed,), _ = communicator.allreduce([buffer], extra)
        # One number, so that the measured time does not include a copy of the buffer to the host.
        return summed[0]

    allreduce = tf.function(graph, autograph=False)
    times = []
    for number in range(rounds + 2):
        communicator.barrier()
        begin = time.perf_counter()
        value = float(allreduce())
        if number >= 2:
            times.append(time.perf_counter() - begin)
        if value != communicator.size:
            raise UserError(
                f"the sum of a one from each of {communicator.size} ranks was {value:g}; the"
                " exchange does not work"
            )
    seconds = max(communicator.gather(median(times)))
    bandwidth = bus_bandwidth(size, seconds, communicator.size)
    return {"bytes": size, "seconds": seconds, "bus_bytes_per_second": bandwidth}


def _read_everywhere(communicator: Communicator, options: ClusterCheck) -> list[float]:
    """Return the bytes/s of each node, all nodes reading at once; empty without data."""
    if options.data is None:
        return []
    rate, problem = 0.0, ""
    nodes = communicator.size // communicator.local_size
    if communicator.local_rank == 0:
        node = communicator.rank // communicator.local_size
        try:
            rate = read_rate(Path(options.data), options.read_seconds, node, nodes)
        except (DataError, OSError) as error:
            # Every rank receives the error and raises it, so that none waits for this one.
            problem = str(error)
    rates = communicator.gather([rate, problem])
    wrong = [text for _, text in rates if text]
    if wrong:
        raise DataError(wrong[0])
    return [rate for rate, _ in rates[:: communicator.local_size]]


def _tell(result: dict[str, Any], output: str | None) -> None:
    text = json.dumps(result, indent=1)
    print(text, flush=True)
    if output is not None:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        Path(output).write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
