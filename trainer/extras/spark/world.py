"""The world of ranks that tasks of Spark become, and how they ended. Standard library only."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from common.errors import ConfigError
from trainer.config import TrainConfig
from trainer.data.prepare.options import WriteOptions
from trainer.distributed.failures import Failure
from trainer.distributed.restart_policy import AttemptResult
from trainer.errors import STOP_STATUSES, TIME_LIMIT_STATUS, PeerError
from trainer.scoring.options import ScoreOptions

Written = TypeVar("Written", bound=WriteOptions | ScoreOptions)

LOST: Final = -9
"""Status of a rank whose executor or Python worker was lost: as of a process that was killed."""


@dataclass(frozen=True)
class TaskNode:
    """Where a task of a barrier stage runs."""

    task: int
    """Number of the task."""
    host: str
    """Address of its executor, as the others reach it."""
    node: str
    """Identity of its machine or container: tasks on the same node share memory and loopback."""


@dataclass(frozen=True)
class TaskRank:
    """The rank of a task."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node: int
    """Number of the node, in the order of ranks."""
    address: str
    """Address at which task 0 serves the rendezvous."""

    def environment(self, port: int) -> dict[str, str]:
        """Return the variables by which Horovod's Gloo forms the world of all tasks."""
        return {
            "HOROVOD_RANK": str(self.rank),
            "HOROVOD_SIZE": str(self.size),
            "HOROVOD_LOCAL_RANK": str(self.local_rank),
            "HOROVOD_LOCAL_SIZE": str(self.local_size),
            "HOROVOD_CROSS_RANK": str(self.node),
            "HOROVOD_CROSS_SIZE": str(self.size // self.local_size),
            "HOROVOD_HOSTNAME": f"node{self.node}",
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": self.address,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
            # Without an interface Gloo takes the one of the machine's own host name.
            **({"HOROVOD_GLOO_IFACE": "lo"} if self.local_size == self.size else {}),
        }


def rank_of(tasks: Sequence[TaskNode], task: int) -> TaskRank:
    """Return the rank of a task: ranks fill one node after the other, and task 0 is rank 0.

    Args:
        tasks: All tasks of the stage, in their order.
        task: Number of the task.

    Raises:
        ConfigError: The nodes have unequal numbers of tasks.
    """
    nodes = list(dict.fromkeys(each.node for each in tasks))
    counts = {node: sum(each.node == node for each in tasks) for node in nodes}
    if len(set(counts.values())) > 1:
        hosts = {each.node: each.host for each in tasks}
        shown = ", ".join(f"{count} on {hosts[node]}" for node, count in counts.items())
        raise ConfigError(
            [
                f"--num-proc: Spark put unequal numbers of ranks on the nodes ({shown}); give every"
                " executor the same cores, and choose a multiple of the executors"
            ]
        )
    order = sorted(tasks, key=lambda each: (nodes.index(each.node), each.task))
    rank = next(number for number, each in enumerate(order) if each.task == task)
    local_size = counts[nodes[0]]
    address = "127.0.0.1" if len(nodes) == 1 else order[0].host
    return TaskRank(rank, len(order), rank % local_size, local_size, rank // local_size, address)


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended, as its task reports it."""

    rank: int
    host: str
    status: int | None
    """Exit status as in `subprocess`; None if it had to be killed after another rank failed."""
    ended: float
    """Time of its end, in seconds since 1970, by the clock of its machine."""
    failures: tuple[Failure, ...] = ()
    lines: tuple[str, ...] = ()
    """Last lines of its output."""
    problem: str = ""
    """Why it was not started; empty if it was."""
    result: bytes = b""
    """The result of a user's function, pickled."""


def attempt_result(ends: Sequence[RankEnd]) -> AttemptResult:
    """Return the outcome of an attempt, as the restart policy reads it."""
    ordered = sorted(ends, key=lambda end: end.ended)
    return AttemptResult(
        tuple(end.status for end in ordered if end.status is not None),
        tuple(failure for end in ordered for failure in end.failures),
    )


def causes(ends: Sequence[RankEnd]) -> list[RankEnd]:
    """Return the ranks that failed, the first one first, without those that only lost their peer
    or were asked to stop.
    """
    follow = {0, None, PeerError.exit_code, TIME_LIMIT_STATUS, *STOP_STATUSES}
    failed = [end for end in ends if end.status not in follow]
    return sorted(failed, key=lambda end: end.ended)


def lost_executor(message: str) -> bool:
    """Return whether Spark ended a stage because it lost an executor or a Python worker, given its
    message; not if Python raised an exception in a task.
    """
    return "Traceback (most recent call last)" not in message


def cancelled(message: str) -> bool:
    """Return whether a job of Spark was cancelled, given its message."""
    return re.search(r"\bJob( \d+)? cancelled", message) is not None


def reason(message: str) -> str:
    """Return the line of Spark's message that says why a job ended."""
    lines = [line.strip(": \t") for line in message.splitlines() if line.strip(": \t")]
    # Python's own errors, how an executor or a worker was lost, and what Spark begins with.
    python = () if lost_executor(message) else (r"(?!org\.|java|py4j)[\w.]+(Error|Exception): ",)
    for pattern in (*python, ".*(Reason:|exited unexpectedly)", ".*(Job aborted|cancelled)", ""):
        matching = [line for line in lines if re.match(pattern, line)]
        if matching:
            return matching[0][:300]
    return "unknown"


def for_executors(config: TrainConfig, ranks: int, folder: Path) -> TrainConfig:
    """Return a configuration whose folders mean the same in every working directory.

    Args:
        config: Configuration of the run.
        ranks: World size.
        folder: Working directory of the driver, to which relative folders refer.
    """
    data, log = config.data, config.log
    default = None if data.source == "synthetic" else f"data/{data.source}"
    return replace(
        config,
        ranks=ranks,
        runs_dir=str(folder / config.runs_dir),
        data=replace(
            data,
            dir=_absolute(data.dir or default, folder),
        ),
        log=replace(log, tensorboard_dir=_absolute(log.tensorboard_dir, folder)),
        model=replace(config.model, weights=_absolute(config.model.weights, folder)),
        exchange=replace(config.exchange, timeline=_absolute(config.exchange.timeline, folder)),
    )


def _absolute(path: str | None, folder: Path) -> str | None:
    return None if path is None else str(folder / path)


def absolute_paths(options: Written, folder: Path) -> Written:
    """Return options of a preparation or of scoring with paths, which these options name as
    `paths`, that do not depend on a working directory.

    Args:
        options: Options of `trainer prepare` or `trainer score`.
        folder: Working directory of the driver, to which relative paths refer.
    """
    changed: dict[str, Any] = {}
    for name in options.paths:
        value = getattr(options, name)
        if isinstance(value, tuple):
            changed[name] = tuple(str(folder / path) for path in value)
        elif value:
            changed[name] = str(folder / value)
    return replace(options, **changed)
