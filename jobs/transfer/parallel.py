"""Process items with many threads, until one fails or Ctrl-C."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from jobs.retry import Retry, StoppedError

T = TypeVar("T")


def for_each(items: Iterable[T], work: Callable[[T], None], threads: int, retry: Retry) -> None:
    """Process all items; after an error or Ctrl-C, start no more of them.

    Args:
        items: Items, processed in order.
        work: Processes an item; called by several threads at once.
        threads: Number of threads.
        retry: Stopped when an item fails, so that the other threads end soon.

    Raises:
        Exception: First exception that `work` raised, once all threads have ended.
        KeyboardInterrupt: Ctrl-C was pressed; raised once all threads have ended.
    """
    lock, remaining = threading.Lock(), iter(items)
    causes: list[BaseException] = []

    def worker() -> None:
        while not retry.stopped:
            with lock:
                item = next(remaining, _END)
            if isinstance(item, _End):
                return
            try:
                work(item)
            except StoppedError:
                return
            except BaseException as error:
                causes.append(error)
                retry.stop()
                raise

    with ThreadPoolExecutor(threads) as pool:
        workers = [pool.submit(worker) for _ in range(threads)]
        try:
            wait(workers, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            retry.interrupt()
            raise
    if causes:
        raise causes[0]


class _End:
    """Marks the end of the items."""


_END = _End()
