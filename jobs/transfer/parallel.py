"""Many items by many threads, until one fails or a person says stop."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from jobs.retry import Retry, StoppedError

T = TypeVar("T")


def for_each(items: Iterable[T], work: Callable[[T], None], threads: int, retry: Retry) -> None:
    """Work on all items; after an error or Ctrl-C, no more of them are begun.

    Args:
        items: taken in order.
        work: what to do with an item; called by several threads at once.
        threads: how many.
        retry: is stopped when something fails, so that the other threads end soon.

    Raises:
        Exception: the first that work raised, when all threads have ended.
        KeyboardInterrupt: likewise.
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
    """Nothing is left."""


_END = _End()
