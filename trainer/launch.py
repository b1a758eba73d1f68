"""Start the ranks of a training on this machine, and see them through to their end.

Each rank is the same command in a session of its own, so that only this process gets the terminal's
Ctrl-C. The first one asks the ranks to finish their step and save; the second ends them at once.
Rank 0 writes to the terminal directly; the lines of the others carry their rank.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from types import FrameType
from typing import IO

from trainer.distributed import rendezvous
from trainer.errors import PeerError
from trainer.place import launched_as

PARENT = "TRAINER_LAUNCHER_PID"
GRACE_SECONDS = 15.0
"""Time that the other ranks get to end by themselves once one has failed."""


def is_rank(env: Mapping[str, str]) -> bool:
    """Whether a launcher, ours or another, has started this process."""
    return launched_as(env) is not None


def rank_environment(env: Mapping[str, str], rank: int, ranks: int, port: int) -> dict[str, str]:
    """The environment in which Horovod's Gloo forms a world on this machine."""
    return {
        **env,
        PARENT: str(os.getpid()),
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(ranks),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(ranks),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
    }


def end_with_launcher() -> None:
    """Have the kernel end this rank, by SIGTERM and so with its state saved, if its launcher
    dies.
    """
    parent = os.environ.get(PARENT)
    if parent is None:
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)


def launch(args: Sequence[str], ranks: int) -> int:
    """Run `python -m trainer ARGS` as several ranks.

    Returns:
        0 if all succeeded; else the status of the rank that failed first.
    """
    received: list[int] = []
    processes: list[subprocess.Popen[str]] = []

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        at_once = received.count(signal.SIGINT) > 1
        _send(processes, signal.SIGKILL if at_once else number)

    previous = {
        number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)
    }
    world = "1 rank" if ranks == 1 else f"{ranks} ranks"
    print(f"starting {world}; loading TensorFlow takes some seconds", flush=True)
    try:
        with rendezvous() as port:
            for rank in range(ranks):
                processes.append(_start(args, rank, ranks, port))
                if received:
                    processes[rank].send_signal(received[-1])
            relays = [_start_relay(process.stdout, rank) for rank, process in enumerate(processes)]
            statuses = _wait(processes, received)
            for relay in relays:
                relay.join(timeout=2)
    finally:
        _send(processes, signal.SIGKILL)
        for number, handler in previous.items():
            signal.signal(number, handler)
    if received.count(signal.SIGINT) > 1:
        print("stopped at once; steps since the last checkpoint are lost", file=sys.stderr)
        return 128 + signal.SIGINT
    return _status(statuses)


def _send(processes: "Sequence[subprocess.Popen[str]]", number: int) -> None:
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)


def _start(args: Sequence[str], rank: int, ranks: int, port: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "trainer", *args],
        env=rank_environment(os.environ, rank, ranks, port),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if rank else None,
        stderr=subprocess.STDOUT if rank else None,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _start_relay(lines: IO[str] | None, rank: int) -> threading.Thread:
    relay = threading.Thread(target=_relay, args=(lines or (), rank), daemon=True)
    relay.start()
    return relay


def _relay(lines: Iterable[str], rank: int) -> None:
    for line in lines:
        print(f"[rank {rank}] {line}", end="", file=sys.stderr, flush=True)


def _wait(processes: "Sequence[subprocess.Popen[str]]", received: Sequence[int]) -> list[int]:
    """Wait for all; once one has failed, not for long. Statuses in the order of ending."""
    deadline = None
    ended: dict[int, int] = {}
    while len(ended) < len(processes):
        time.sleep(0.05)
        for rank, process in enumerate(processes):
            status = process.poll()
            if status is None or rank in ended:
                continue
            ended[rank] = status
            if status < 0 and -status not in received:
                print(f"rank {rank} was killed by {signal.Signals(-status).name}", file=sys.stderr)
            if status and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS
        if deadline and time.monotonic() > deadline:
            for rank, process in enumerate(processes):
                if rank not in ended:
                    print(f"rank {rank} did not end after the failure: killed", file=sys.stderr)
                    process.kill()
            deadline = None
    return list(ended.values())


def _status(statuses: Sequence[int]) -> int:
    """The cause among the statuses: not that of ranks that only lost their peer."""
    failed = [128 - status if status < 0 else status for status in statuses if status]
    causes = [status for status in failed if status != PeerError.exit_code]
    return (causes or failed or [0])[0]
