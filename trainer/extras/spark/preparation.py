"""The shards of a data set, or files of scores, written by tasks of Spark, in place of a pool of
processes.

The listing of the files to read is a file on the driver, which Spark sends to every executor. A
shard, or a file of scores, is written by one task, and a task that Spark repeats writes the same
bytes again. The files to read and the folder to write must have the same absolute path on driver
and executors.
"""

import secrets
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from common.errors import UserError
from trainer.data.prepare.pool import Advance, Bar, Result, Task, WorkThrough
from trainer.data.prepare.shards import FileRange
from trainer.extras.spark.job import Job
from trainer.extras.spark.session import get_context, get_session
from trainer.extras.spark.world import Written, absolute_paths, reason
from trainer.scoring.unit import Unit

_POLL_SECONDS = 0.25


def on_session(options: Written) -> tuple[Written, WorkThrough]:
    """Return the options of a command with absolute paths, and what does its units on the session
    of this program; see `trainer.leaves`.
    """
    return absolute_paths(options, Path.cwd()), on_spark(get_session())


def on_spark(spark: Any) -> WorkThrough:
    """Return a function for `prepare(..., work_through=)` or `score` that does the tasks on Spark.

    Args:
        spark: `SparkSession`. Executors may come and go while it works.
    """
    context = get_context(spark)

    def work_through(
        work: Callable[[Task, Advance], Result],
        tasks: Sequence[Task],
        images: int,
        what: str,
        processes: int = 0,  # noqa: ARG001 - Spark has as many as it has slots
    ) -> closing[Generator[Result]]:
        return closing(_results(context, work, tasks, images, what))

    return work_through


def _results(
    context: Any,
    work: Callable[[Task, Advance], Result],
    tasks: Sequence[Task],
    images: int,
    what: str,
) -> Generator[Result]:
    if not tasks:
        return
    listing = _listing_of(tasks[0])
    sent = _send(context, listing) if listing else None
    arrived = _arrivals(context)
    task = _Task(work, tuple(tasks), sent)

    def do_units(numbers: Iterator[int]) -> None:
        arrived.add(list(task(numbers)))

    numbers = context.parallelize(range(len(tasks)), len(tasks))
    taken = done = 0
    with (
        Bar(what, images) as bar,
        Job(context, what, lambda: numbers.foreachPartition(do_units)) as job,
    ):
        while True:
            ended = job.wait(_POLL_SECONDS)
            outcomes = arrived.value[taken:]
            taken += len(outcomes)
            for outcome, more in outcomes:
                done += more
                bar.show(done)
                if isinstance(outcome, UserError):
                    raise outcome
                yield outcome
            if ended:
                break
    if job.error is not None:
        raise UserError(
            f"Spark ended the job while {what} ({reason(str(job.error))}); run the same command"
            " again to continue"
        ) from job.error


def _arrivals(context: Any) -> Any:
    """Return an accumulator of lists: the driver sees what a task adds as soon as the task has
    succeeded, and once, however often Spark has repeated it.
    """
    from pyspark import AccumulatorParam

    class Lists(AccumulatorParam[list[Any]]):
        def zero(self, value: list[Any]) -> list[Any]:  # noqa: ARG002 - as pyspark declares it
            return []

        def addInPlace(self, value: list[Any], more: list[Any]) -> list[Any]:  # noqa: N802
            value += more
            return value

    return context.accumulator([], Lists())


def _listing_of(task: object) -> Path | None:
    if isinstance(task, FileRange):
        return task.preparation.listing
    return task.listing if isinstance(task, Unit) else None


def _with_listing(task: Any, listing: Path) -> Any:
    if isinstance(task, Unit):
        return replace(task, listing=listing)
    return replace(task, preparation=replace(task.preparation, listing=listing))


def _send(context: Any, listing: Path) -> str:
    """Send a listing to all executors, also to those that start later; return its name there."""
    from pyspark import SparkFiles

    # Spark tells files apart by their names, and asks for them as long as the context lives.
    folder = Path(SparkFiles.getRootDirectory(), "listings")
    folder.mkdir(exist_ok=True)
    name = f"listing-{secrets.token_hex(6)}.sqlite"
    context.addFile(str(shutil.copyfile(listing, folder / name)))
    return name


class _Task:
    """The work of one partition, which is one unit; runs on executors."""

    def __init__(
        self,
        work: Callable[[Any, Advance], Any],
        tasks: tuple[Any, ...],
        listing: str | None,
    ) -> None:
        self._work, self._tasks, self._listing = work, tasks, listing

    def __call__(self, numbers: Iterator[int]) -> Iterator[tuple[Any, int]]:
        from pyspark import SparkFiles

        for number in numbers:
            task = self._tasks[number]
            if self._listing is not None:
                task = _with_listing(task, Path(SparkFiles.get(self._listing)))
            images: list[int] = []
            try:
                outcome = self._work(task, images.append)
            except UserError as error:
                # Spark would repeat the task, and show its own stack instead of the message.
                outcome = error
            yield outcome, sum(images)
