"""Many items by many threads, until one fails or a person says stop."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from jobs.retry import Patience, StoppedError

T = TypeVar("T")


def each(items: Iterable[T], work: Callable[[T], None], threads: int, patience: Patience) -> None:
    """Work on all items; after an error or Ctrl-C, no more of them are begun.

    Args:
        items: taken in order.
        work: what to do with one; called by several threads at once.
        threads: how many.
        patience: is stopped when something fails, so that the other threads end soon.

    Raises:
        Exception: the first that work raised, when all threads have ended.
        KeyboardInterrupt: likewise.
    """
    lock, left = threading.Lock(), iter(items)
    causes: list[BaseException] = []

    def worker() -> None:
        while not patience.stopped:
            with lock:
                taken = next(left, _END)
            if isinstance(taken, _End):
                return
            try:
                work(taken)
            except StoppedError:
                return
            except BaseException as error:
                causes.append(error)
                patience.stop()
                raise

    with ThreadPoolExecutor(threads) as pool:
        workers = [pool.submit(worker) for _ in range(threads)]
        try:
            wait(workers, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            patience.interrupt()
            raise
    if causes:
        raise causes[0]


class _End:
    """Nothing is left."""


_END = _End()
