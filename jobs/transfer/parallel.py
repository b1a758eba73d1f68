"""Process items with many threads, until one fails or Ctrl-C."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from jobs.retry import Retry

T = TypeVar("T")


def for_each(items: Iterable[T], work: Callable[[T], None], threads: int, retry: Retry) -> None:
    """Process all items; after an error or Ctrl-C, start no more of them.

    Args:
        items: Items, processed in order; none of them is None.
        work: Processes an item; called by several threads at once.
        threads: Number of threads.
        retry: Stopped when an item fails, so that the other threads end soon.

    Raises:
        Exception: First exception that `work` raised, once all threads have ended.
        KeyboardInterrupt: Ctrl-C was pressed; raised once all threads have ended.
    """
    lock, remaining = threading.Lock(), iter(items)

    def take() -> T | None:
        with lock:
            retry.check()
            return next(remaining, None)

    def worker() -> None:
        while (item := take()) is not None:
            work(item)

    with ThreadPoolExecutor(threads) as pool:
        try:
            for ended in as_completed([pool.submit(worker) for _ in range(threads)]):
                ended.result()
        except KeyboardInterrupt:
            retry.interrupt()
            raise
        except BaseException:
            # The other threads end with a `StoppedError`.
            retry.stop()
            raise
