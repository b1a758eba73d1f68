"""Tools to disturb a run while it trains: its output as it comes, and its ranks."""

import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path


def wait_for_line(process: "subprocess.Popen[str]", pattern: str, seconds: float = 600) -> str:
    """Read the trainer's output up to a line; the process is killed if it does not come."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        for line in process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line like {pattern!r}: {process.stderr.read()}")
    finally:
        timer.cancel()


def ranks_of(launcher: "subprocess.Popen[str]") -> dict[int, int]:
    """Processes of the ranks that a launcher has started, by rank."""
    ranks = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"TRAINER_LAUNCHER_PID=%d\0" % launcher.pid in environment:
            rank = re.search(rb"HOROVOD_RANK=(\d+)", environment)
            assert rank is not None
            ranks[int(rank[1])] = int(folder.name)
    return ranks


def wait_until_gone(ranks: dict[int, int], seconds: float = 600) -> None:
    """Wait for ranks to end by themselves."""
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in ranks.values()), seconds)


def wait_until(condition: Callable[[], bool], seconds: float = 600, *, pause: float = 0.05) -> None:
    """Wait until something is so; other tests and machines may be slow."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come to be so"
        time.sleep(pause)


def has_loaded(pid: int, library: str) -> bool:
    """Whether a process has loaded a library whose file has this in its path."""
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
