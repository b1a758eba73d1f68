"""A task of the barrier stage: it runs one rank as a child process, and tells how the
rank ended. Runs on executors.

A rank is the trainer's unchanged command in a process of its own, so that Spark's Python worker,
which is used again, never loads TensorFlow. If the worker is killed, the kernel sends SIGTERM to
the rank, which saves its state and ends. A task never raises because of its rank: Spark would end
the stage without telling how the others ended.
"""

import http.client
import json
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final

from common.errors import UserError
from trainer.distributed.failures import read_failures
from trainer.distributed.horovod import rendezvous
from trainer.distributed.launcher import GRACE_SECONDS, rank_environment, start_rank
from trainer.extras.spark.messages import Mailbox
from trainer.extras.spark.world import RankEnd, TaskNode, TaskRank, rank_of

_POLL_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 2.0
"""Seconds between two looks for a stop request, and for the failure of another rank."""
_LAST_LINES: Final = 20
"""Lines of a rank's output that the driver is told, to show those of the rank that failed."""
FUNCTION: Final = "function"
"""File with the pickled function of a user, which ranks call."""
RESULT: Final = "result"
"""File with the result of the function on rank 0, pickled."""


@dataclass(frozen=True)
class Work:
    """What all ranks run."""

    module: str
    """Module that is run by `python -m`."""
    args: tuple[str, ...]
    """Its arguments."""
    mailbox: Mailbox | None = None
    """Where the driver leaves stop requests, and reads the output of rank 0."""
    function: bytes = b""
    """Pickled function, which ranks find as a file in a folder that is their last argument."""


def run_rank(work: Work, _: Iterator[int]) -> Iterator[RankEnd]:
    """Run one rank; the function of a partition of the barrier stage.

    Args:
        work: What all ranks run.

    Yields:
        How the rank ended.
    """
    from pyspark import BarrierTaskContext  # type: ignore[import-not-found,unused-ignore]

    context = BarrierTaskContext.get()
    task = context.partitionId()
    hosts = [info.address.rsplit(":", 1)[0] for info in context.getTaskInfos()]
    mine = TaskNode(task, hosts[task], _node())
    tasks = [TaskNode(**json.loads(text)) for text in context.allGather(json.dumps(asdict(mine)))]
    try:
        own = rank_of(tasks, task)
    except UserError as error:
        yield RankEnd(task, mine.host, None, time.time(), problem=str(error))
        return
    # Only ranks of other nodes need to reach the rendezvous from outside.
    bound = own.address if own.local_size == own.size else ""
    with rendezvous(bound) if task == 0 else nullcontext(0) as served:
        port = max(int(text) for text in context.allGather(str(served)))
        end = _run(work, own, port, context)
        # Task 0 serves the rendezvous until every rank has ended.
        context.barrier()
    yield end


def _node() -> str:
    """Return the identity of this machine or container; several may share an address."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/net')}"  # noqa: PTH115 - not a path


def _run(work: Work, own: TaskRank, port: int, context: Any) -> RankEnd:
    env = {
        **rank_environment(os.environ, own.rank, own.size, port),
        # What Spark has put on the path of this worker, such as --py-files.
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    if own.local_size < own.size:
        # The default of ranks that are all on one machine.
        del env["HOROVOD_GLOO_IFACE"]
    env |= own.environment(port)
    gpu = context.resources().get("gpu")
    if gpu is not None:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpu.addresses)
    pipe, pipe_of_rank = os.pipe()
    with tempfile.TemporaryDirectory(prefix="rank-") as scratch:
        args = [work.module, *work.args]
        if work.function:
            Path(scratch, FUNCTION).write_bytes(work.function)
            args.append(scratch)
        process = start_rank(args, env, pipe_of_rank, piped=True)
        assert process.stdout is not None
        try:
            output = _Output(process.stdout, own.rank, work.mailbox)
            status = _wait(process, work, own, port, output)
            ended = time.time()
            output.finish()
            failures = read_failures(pipe)
        finally:
            process.kill()
            process.wait()
            os.close(pipe)
            os.close(pipe_of_rank)
        result = Path(scratch, RESULT)
        return RankEnd(
            own.rank,
            context.getTaskInfos()[context.partitionId()].address,
            status,
            ended,
            failures,
            tuple(output.last),
            result=result.read_bytes() if result.exists() else b"",
        )


def _wait(process: Any, work: Work, own: TaskRank, port: int, output: "_Output") -> int | None:
    """Wait for a rank, but only `GRACE_SECONDS` once another one has failed.

    Returns:
        Its exit status; None if it had to be killed.
    """
    deadline, looked = float("inf"), time.monotonic()
    while (status := process.poll()) is None:
        time.sleep(_POLL_SECONDS)
        now = time.monotonic()
        if now > deadline:
            print(f"[rank {own.rank}] did not end within {GRACE_SECONDS:g} s", file=sys.stderr)
            return None
        if now - looked < _LOOK_SECONDS:
            continue
        looked = now
        output.send()
        if own.rank == 0 and work.mailbox is not None:
            for number in work.mailbox.new_stops():
                process.send_signal(number)
        if deadline == float("inf") and _ask(own.address, port, "GET"):
            deadline = now + GRACE_SECONDS
    if status:
        _ask(own.address, port, "PUT")
    return int(status)


def _ask(address: str, port: int, method: str) -> bool:
    """Note that a rank has failed (PUT), or return whether one has (GET), where all ranks look: the
    rendezvous is a store of keys and values.
    """
    # A lost rendezvous is a lost task, because of which Spark ends this one.
    with suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(address, port, timeout=5)
        try:
            connection.request(method, "/ended/failed", b"1" if method == "PUT" else None)
            return connection.getresponse().status == http.client.OK
        finally:
            connection.close()
    return False


class _Output:
    """The output of a rank: that of rank 0 goes to the driver, that of others to the executor's
    log.
    """

    def __init__(self, lines: IO[str], rank: int, mailbox: Mailbox | None) -> None:
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self._lines, self._rank = lines, rank
        self._mailbox = mailbox if rank == 0 else None
        self._waiting: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._lines:
            self.last.append(line.rstrip("\n"))
            if self._mailbox is not None:
                self._waiting.append(line)
            else:
                print(f"[rank {self._rank}] {line}", end="", file=sys.stderr, flush=True)

    def send(self) -> None:
        """Send new messages to the driver."""
        count = len(self._waiting)
        if self._mailbox is None or not count:
            return
        self._mailbox.send_text("".join(self._waiting[:count]))
        del self._waiting[:count]

    def finish(self) -> None:
        """Read to the end of the output, and send it."""
        self._thread.join(timeout=2)
        self.send()
