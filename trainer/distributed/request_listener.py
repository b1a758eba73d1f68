"""Answers requests to this rank, while it trains.

A thread lists the run's folder every few seconds and needs nothing but the GIL. So it also answers
while the main thread waits in a collective, for data, or for a mount that hangs; it cannot answer
while a thread holds the GIL for ever, or while the process is stopped. It writes nothing unless it
is asked, and reads no file: the name of a request says everything.
"""

import json
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from sysconfig import get_path
from types import FrameType
from typing import Any, Self

from common.files import write_atomically
from trainer.distributed.rank import Rank
from trainer.distributed.run_requests import (
    EXPIRY_SECONDS,
    POLL_SECONDS,
    RankState,
    RunRequest,
    Stack,
)
from trainer.distributed.watchdog import Watchdog

_OWN_THREADS = frozenset({"requests", "watchdog", "mpirun-stop"})
"""Threads of the trainer that only wait, and are the same in every rank."""


class RequestListener:
    """Listens for the requests of a run while the context is entered.

    Args:
        watchdog: Knows the progress of this rank and of the others on its node.
        launched: Rank of this process; None for a world of one.
    """

    def __init__(self, watchdog: Watchdog, launched: Rank | None) -> None:
        self._watchdog = watchdog
        self._rank, self._size = (launched.rank, launched.size) if launched else (0, 1)
        self._folder: Path | None = None
        self._known: set[str] = set()
        self._ended = threading.Event()
        self.profile: RunRequest | None = None
        """Request for a profile that rank 0 has not answered yet; always None on other ranks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # The thread is not waited for, as its mount may hang.
        self._ended.set()

    def listen(self, run: Path) -> None:
        """Start to listen in the folder of a run, which need not exist yet."""
        if self._folder is None:
            self._folder = run
            threading.Thread(target=self._listen, name="requests", daemon=True).start()

    def answer_profile(self, **facts: Any) -> None:
        """Answer the request for a profile."""
        if self.profile is not None:
            request, self.profile = self.profile, None
            self._answer(request, json.dumps(facts))

    def _listen(self) -> None:
        listed = False
        while True:
            requests = new_requests(self._folder or Path(), self._known, fresh=listed)
            listed = listed or requests is not None
            for request in requests or ():
                if request.action == "stacks":
                    self._answer(request, self._state().to_json())
                elif request.action == "profile" and self._rank == 0 and self.profile is None:
                    self.profile = request
            if self._ended.wait(POLL_SECONDS):
                return

    def _answer(self, request: RunRequest, text: str) -> None:
        # A full disk or a lost mount must not end the training.
        if self._folder is not None:
            with suppress(OSError):
                write_atomically(self._folder / request.answer_file(self._rank), text)

    def _state(self) -> RankState:
        return RankState(
            rank=self._rank,
            size=self._size,
            host=socket.gethostname(),
            heartbeat=self._watchdog.heartbeat,
            idle_seconds=self._watchdog.idle_seconds,
            stacks=python_stacks(),
            node=self._watchdog.node(),
        )


def new_requests(folder: Path, known: set[str], *, fresh: bool = False) -> list[RunRequest] | None:
    """Return the requests in a folder that are not among the known names; add them to these.

    A folder that does not exist has none. If it cannot be listed, return None.

    Args:
        folder: Folder of the run.
        known: Names of files.
        fresh: Whether all new ones are recent, because the folder was listed before. Otherwise
            those that are too old are left out, by the clock of the folder's mount.
    """
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError:
        return None
    requests = []
    for name in names:
        request = RunRequest.parse(name)
        if request is None or name in known:
            continue
        known.add(name)
        with suppress(OSError):
            if fresh or time.time() - (folder / name).stat().st_mtime < EXPIRY_SECONDS:
                requests.append(request)
    return requests


def python_stacks() -> tuple[Stack, ...]:
    """Return where the threads of this process are, the main thread first."""
    frames = sys._current_frames()  # noqa: SLF001
    main = threading.main_thread()
    threads = sorted(threading.enumerate(), key=lambda thread: thread is not main)
    return tuple(
        Stack(thread.name, _lines(frames[thread.ident]))
        for thread in threads
        if thread.ident in frames and thread.name not in _OWN_THREADS
    )


def _lines(frame: FrameType) -> tuple[str, ...]:
    return tuple(
        f"{_short(call.filename)}:{call.lineno} {call.name}: {call.line}"
        for call in traceback.extract_stack(frame)
    )


def _short(file: str) -> str:
    """Return a path without what all paths of an installation have in common."""
    for folder in ("/site-packages/", "/dist-packages/", f"{get_path('stdlib')}/"):
        if folder in file:
            return file.rpartition(folder)[2]
    return file.removeprefix(f"{Path(__file__).parents[2]}/")
