"""Start the ranks of a run on this machine, wait for them, and restart them after a crash.

Each rank is the same command in a session of its own, so that only this process receives the
terminal's Ctrl-C. The first Ctrl-C asks the ranks to finish their step and save; the second ends
them immediately. SIGUSR2 makes all of them print their stacks. Rank 0 writes its output to
the terminal directly; the lines of the other ranks are prefixed with their rank. What TensorFlow's
C++ code logs goes to a file of the run, and to the terminal if a rank fails.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self, TextIO

from common.text import plural
from common.waiting import wait_until
from trainer.distributed.failures import PIPE, read_failures
from trainer.distributed.horovod import rendezvous
from trainer.distributed.native_log import NativeLog, is_native
from trainer.distributed.rank import launched_as
from trainer.distributed.restart_policy import AttemptResult, decide_restart, describe_exit
from trainer.errors import STOP_SIGNALS, TIME_LIMIT_STATUS

PARENT = "TRAINER_LAUNCHER_PID"
KEPT_BYTES = 256 << 20
"""Size up to which a rank keeps freed memory, in bytes; see `keep_freed_memory`."""
ARENAS = 4
"""Pools of memory that the threads of a rank share; see `keep_freed_memory`."""
GRACE_SECONDS = 15.0
"""Seconds that the other ranks have to end by themselves after one has failed."""


def launch(args: Sequence[str], ranks: int, module: str = "trainer") -> int:
    """Run `python -m MODULE ARGS` as several ranks, once.

    Returns:
        0 if all ranks succeeded; else the status of the rank that failed first; 130 after a second
        Ctrl-C.
    """
    with SignalForwarder() as signals:
        result = run_ranks(args, ranks, signals, module)
        return signals.status_at_once or result.status


def launch_with_restarts(
    args: Sequence[str],
    ranks: int,
    newest_step: Callable[[], int | None],
    restarts: int,
    folder: Path | None = None,
) -> int:
    """Run `python -m trainer ARGS` as several ranks until it succeeds, is stopped or is broken.

    Args:
        args: Arguments of a run, including the name of its run.
        ranks: Processes to start.
        newest_step: Returns the step of the run's newest complete checkpoint, or None.
        restarts: Most restarts in a row without a newer checkpoint; see
            `trainer.distributed.restart_policy`.
        folder: See `run_ranks`.

    Returns:
        0 if the last attempt succeeded; else the status of its rank that failed first; 128 + the
        signal after a second Ctrl-C, or a stop in the pause before a restart.
    """
    with SignalForwarder() as signals:
        result = repeat_attempts(
            lambda args: run_ranks(args, ranks, signals, folder=folder),
            args,
            newest_step,
            restarts,
            lambda: bool(signals.received),
        )
        if result is None:
            return 128 + signals.received[0]
        return signals.status_at_once or result.status


def repeat_attempts(
    attempt: Callable[[Sequence[str]], AttemptResult],
    args: Sequence[str],
    newest_step: Callable[[], int | None],
    restarts: int,
    stopped: Callable[[], bool],
) -> AttemptResult | None:
    """Repeat a training until it succeeds, is stopped or is broken.

    Args:
        attempt: Starts all ranks with some arguments, and waits for them.
        args: Arguments of the first attempt.
        newest_step: See `launch_with_restarts`.
        restarts: See `launch_with_restarts`.
        stopped: Returns whether the user has asked to stop.

    Returns:
        The result of the last attempt; None if the stop came in the pause before another one.
    """
    history: list[AttemptResult] = []
    while True:
        before = newest_step()
        result = attempt(args)
        if stopped():
            return result
        history.append(replace(result, saved_before=before, saved=newest_step()))
        decision = decide_restart(history, restarts)
        if decision.reason:
            say(decision.reason)
        if not decision.restart:
            return result
        if wait_until(stopped, decision.delay):
            return None
        # A restart must resume from the last attempt's checkpoint, even with --resume never.
        args = [*args, "--resume", "auto"]


class SignalForwarder:
    """Forwards signals from the launcher to its ranks, while the context is entered."""

    def __init__(self) -> None:
        self.received: list[int] = []
        """Stop signals received so far."""
        self.processes: list[subprocess.Popen[str]] = []
        self._previous: dict[int, Any] = {}

    @property
    def status_at_once(self) -> int | None:
        """Exit status after a second Ctrl-C, whatever the ranks ended with; None before that."""
        twice = self.received.count(signal.SIGINT) > 1
        return 128 + signal.SIGINT if twice else None

    def __enter__(self) -> Self:
        for number in (*STOP_SIGNALS, signal.SIGUSR2):
            self._previous[number] = signal.signal(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def add(self, process: "subprocess.Popen[str]") -> None:
        """Forward signals to a rank, and at once a stop signal that came before it started."""
        self.processes.append(process)
        if self.received:
            process.send_signal(self.received[-1])

    def send(self, number: int) -> None:
        """Send a signal to all running ranks."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGUSR2:
            self.received.append(number)
        self.send(signal.SIGKILL if self.status_at_once else number)


def run_ranks(
    args: Sequence[str],
    ranks: int,
    signals: SignalForwarder,
    module: str = "trainer",
    folder: Path | None = None,
) -> AttemptResult:
    """Start the ranks and wait for all of them; no rank is left when it returns or raises.

    Args:
        args: Arguments of the module.
        ranks: Processes to start.
        signals: Forwards signals to them.
        module: Module to run.
        folder: Folder of the run, for the log of TensorFlow; None keeps none.
    """
    world = f" {plural(ranks, 'rank')}" if ranks > 1 else ""
    say(f"starting{world}; loading TensorFlow takes a few seconds", sys.stdout)
    signals.processes = []
    pipe, pipe_of_ranks = os.pipe()
    try:
        # A world of one needs no Horovod.
        with rendezvous() if ranks > 1 else nullcontext(0) as port:
            for rank in range(ranks):
                env = rank_environment(os.environ, rank, ranks, port)
                signals.add(start_rank([module, *args], env, pipe_of_ranks, piped=rank > 0))
            processes = signals.processes
            logs = [NativeLog(folder, rank) for rank in range(ranks)]
            relays = [
                _start_relay(process.stdout or process.stderr, log, rank or None)
                for rank, (process, log) in enumerate(zip(processes, logs, strict=True))
            ]
            statuses = _wait(processes, signals.received)
            for relay in relays:
                relay.join(timeout=2)
            _show_native(processes, logs)
        failures = read_failures(pipe)
    finally:
        signals.send(signal.SIGKILL)
        for process in signals.processes:
            process.wait()
        os.close(pipe)
        os.close(pipe_of_ranks)
    if signals.status_at_once:
        say("stopped immediately; the steps since the last checkpoint are lost")
    return AttemptResult(tuple(statuses), failures)


def say(text: str, file: TextIO | None = None) -> None:
    """Print a line. Errors are ignored: the ranks continue and save when the terminal is gone."""
    with suppress(OSError):
        print(text, file=file or sys.stderr, flush=True)


def start_rank(
    args: Sequence[str], env: Mapping[str, str], pipe: int, *, piped: bool
) -> "subprocess.Popen[str]":
    """Start `python -m ARGS` as one rank.

    Args:
        args: Module and its arguments.
        env: Environment, with the place of the rank.
        pipe: File descriptor to which the rank reports its failures.
        piped: Whether to read its output from the process together with its stderr, instead of
            its stderr alone.
    """
    return subprocess.Popen(
        [sys.executable, "-m", *args],
        env={**env, PIPE: str(pipe)},
        pass_fds=[pipe],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if piped else None,
        stderr=subprocess.STDOUT if piped else subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _start_relay(lines: IO[str] | None, log: NativeLog, rank: int | None) -> threading.Thread:
    relay = threading.Thread(target=_relay, args=(lines or (), log, rank), daemon=True)
    relay.start()
    return relay


def _relay(lines: Iterable[str], log: NativeLog, rank: int | None) -> None:
    prefix = "" if rank is None else f"[rank {rank}] "
    for line in lines:
        if is_native(line):
            log.add(line)
            continue
        # Without a reader, the rank would wait in a print once its pipe is full.
        with suppress(OSError):
            print(prefix + line, end="", file=sys.stderr, flush=True)
    log.write()


def _show_native(processes: "Sequence[subprocess.Popen[str]]", logs: Sequence[NativeLog]) -> None:
    """Print what TensorFlow has logged on ranks that failed, and were not asked to stop."""
    for rank, (process, log) in enumerate(zip(processes, logs, strict=True)):
        status = process.poll()
        if not status or status - 128 in STOP_SIGNALS or status == TIME_LIMIT_STATUS:
            continue
        if log.last:
            say(f"the last lines of TensorFlow on rank {rank}:\n{''.join(log.last)}".rstrip())


def _wait(processes: "Sequence[subprocess.Popen[str]]", received: Sequence[int]) -> list[int]:
    """Wait for all ranks, but only `GRACE_SECONDS` once one has failed. Return the statuses in the
    order in which ranks ended, without those of ranks that had to be killed.
    """
    deadline = None
    ended: dict[int, int] = {}
    while len(ended) < len(processes):
        time.sleep(0.05)
        for rank, process in enumerate(processes):
            status = process.poll()
            if status is None or rank in ended:
                continue
            ended[rank] = status
            asked = -status in received or status - 128 in STOP_SIGNALS
            asked = asked or status == TIME_LIMIT_STATUS
            # A single rank has printed its error just above.
            if not asked and (status < 0 or (status and len(processes) > 1)):
                say(describe_exit(rank, status))
            if status and deadline is None:
                deadline = time.monotonic() + GRACE_SECONDS
        if deadline and time.monotonic() > deadline:
            for rank, process in enumerate(processes):
                if rank not in ended:
                    say(f"rank {rank} did not end within {GRACE_SECONDS:g} s and was killed")
                    process.kill()
            break
    return list(ended.values())


def is_rank(env: Mapping[str, str]) -> bool:
    """Return whether a launcher, ours or another, has started this process."""
    return launched_as(env) is not None


def rank_environment(env: Mapping[str, str], rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the environment in which Horovod's Gloo forms a world on this machine."""
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


def keep_freed_memory() -> None:
    """Have glibc keep the memory that this process frees, up to `KEPT_BYTES`, for its next use.

    Otherwise glibc returns large blocks to the system at once, and the kernel clears each page of
    the next batch and of the next window before they are filled. Threads allocate from `ARENAS`
    pools instead of glibc's eight for each core, because free blocks of one are of no use to the
    threads of another. Variables of glibc that are set (mallopt(3): MALLOC_MMAP_THRESHOLD_,
    MALLOC_TRIM_THRESHOLD_, MALLOC_ARENA_MAX) prevail. Without glibc, nothing happens.

    Arrow, which reads files of tables, has an allocator of its own, mimalloc. It returns memory
    too, unless MIMALLOC_PURGE_DELAY is -1 when it is loaded (microsoft.github.io/mimalloc).
    """
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    # Numbers as in malloc.h.
    thresholds = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_MMAP_THRESHOLD_": -3}
    if thresholds.keys().isdisjoint(os.environ):
        for threshold in thresholds.values():
            mallopt(threshold, KEPT_BYTES)
    if "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(-8, ARENAS)


def end_with_launcher() -> None:
    """Have the kernel send SIGTERM to this rank if its launcher dies, so that it saves and ends."""
    parent = os.environ.get(PARENT)
    if parent is None:
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGTERM)
