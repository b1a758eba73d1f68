"""A pool of processes with a progress bar, which ends when its parent ends."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from itertools import islice
from typing import Any, Self, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.errors import UserError
from common.text import plural
from trainer.diagnostics.environment import cores

Task = TypeVar("Task")
Result = TypeVar("Result")

Advance = Callable[[int], object]
"""Function that reports how many more images are done."""

WorkThrough = Callable[..., closing[Generator[Any]]]
"""Function with the arguments of `work_through`, which does the tasks anywhere."""

_REPORT_EVERY = 30.0
"""Seconds between two progress lines without a terminal."""

_AHEAD = 4
"""Tasks that wait for each process, at most."""

_counter: Any = None


def work_through(
    work: Callable[[Task, Advance], Result],
    tasks: Sequence[Task],
    images: int,
    what: str,
    processes: int = 0,
) -> closing[Generator[Result]]:
    """Do some tasks, in any order, as a context whose variable yields each result as it comes.

    The processes have ended when the context is left, whether by an error, a signal or neither.

    Args:
        work: Module-level function of a task, called in another process if there are several. It
            calls its second argument now and then with the number of images done since.
        tasks: Arguments of `work`; must be picklable.
        images: Number of images in all tasks, for the bar.
        what: Name of the work for the bar, such as "writing".
        processes: Number of processes; 0 is one per core.

    Raises:
        UserError: A process was killed.
        Exception: The first exception that `work` raised.
    """
    return closing(_results(work, tasks, images, what, processes))


def of_this_machine(options: Any) -> tuple[Any, WorkThrough]:
    """Return the options of a command, and `work_through`; see `trainer.leaves`."""
    return options, work_through


def _results(
    work: Callable[[Task, Advance], Result],
    tasks: Sequence[Task],
    images: int,
    what: str,
    processes: int,
) -> Generator[Result]:
    count = min(processes or cores(), len(tasks))
    counter = multiprocessing.get_context("fork").Value("Q", 0)
    if count <= 1:
        _begin(counter)
        with Bar(what, images) as bar:
            for task in tasks:
                yield work(task, lambda more: bar.show(_advance(more)))
        return
    # Forked before the bar starts a thread; the processes also share the memory of loaded modules.
    executor = ProcessPoolExecutor(count, multiprocessing.get_context("fork"), _start, (counter,))
    try:
        # All at once would be looked at whenever one is done.
        left = iter(tasks)
        pending: set[Future[Result]] = {
            executor.submit(work, task, _advance) for task in islice(left, _AHEAD * count)
        }
        with Bar(what, images) as bar:
            while pending:
                done, pending = wait(pending, 0.25, FIRST_COMPLETED)
                bar.show(counter.value)
                for task in islice(left, len(done)):
                    pending.add(executor.submit(work, task, _advance))
                for future in done:
                    yield future.result()
    except BrokenProcessPool as error:
        raise UserError(
            f"a process was killed while {what}, perhaps out of memory; try fewer --processes"
        ) from error
    finally:
        for process in list((executor._processes or {}).values()):  # noqa: SLF001
            process.kill()
        try:
            executor.shutdown(cancel_futures=True)
        except BaseException:
            # A signal came meanwhile. Python prints a traceback if a thread of the pool ends
            # together with the interpreter.
            executor.shutdown()
            raise


def _start(counter: Any) -> None:
    """Initialise a process of the pool; only the parent handles Ctrl-C, and ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # A process that waits for its next task would wait for ever if its parent was killed.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _begin(counter)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _begin(counter: Any) -> None:
    global _counter  # noqa: PLW0603 - a process has one
    _counter = counter


def _advance(more: int) -> int:
    """Count images; return the total of all processes so far."""
    with _counter.get_lock():
        _counter.value += more
        return int(_counter.value)


class Bar:
    """Images done, images/s and time left: a bar on a terminal, an occasional line elsewhere."""

    def __init__(self, what: str, images: int) -> None:
        self._what, self._images = what, images
        self._began = self._reported = time.monotonic()
        self._bar = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("images, {task.fields[rate]}"),
            TimeRemainingColumn(),
            transient=True,
            disable=not sys.stdout.isatty(),
        )
        self._task = self._bar.add_task(what, total=images, rate="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, done: int) -> None:
        """Show how many images are done."""
        now = time.monotonic()
        rate = done / max(now - self._began, 1e-9)
        self._bar.update(self._task, completed=done, rate=f"{rate:,.0f} images/s")
        if self._bar.disable and now - self._reported >= _REPORT_EVERY and done:
            self._reported = now
            left = (self._images - done) / rate
            print(
                f"{self._what}: {done:,} of {plural(self._images, 'image')}, {rate:,.0f} images/s,"
                f" {left / 60:.0f} minutes left",
                flush=True,
            )
