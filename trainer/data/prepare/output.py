"""The output folder: its lock, the data set begun in it, and its state after an interrupt."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import UserError
from common.files import write_atomically, writing
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.data.prepare.options import OTHER_OUTPUT
from trainer.data.prepare.shards import LEAST_SHARDS, PARTS
from trainer.errors import DataError


def check_folder(output: Path) -> None:
    """Check that writing to a folder does not overwrite other data.

    Raises:
        DataError: It is a file, or contains something else.
    """
    if output.exists() and not output.is_dir():
        raise DataError.of(f"{output}: is not a folder; choose {OTHER_OUTPUT}")
    if (output / FILE_NAME).exists() or (output / PARTS).exists() or not output.exists():
        return
    if any(output.iterdir()):
        raise DataError.of(f"{output}: is not empty and has no {FILE_NAME}; choose {OTHER_OUTPUT}")


@contextmanager
def only_writer(output: Path) -> Iterator[None]:
    """Keep two commands from writing to the same folder, if its file system has locks.

    Raises:
        UserError: Another process is writing there.
    """
    existed = output.exists()
    with writing(output):
        output.mkdir(parents=True, exist_ok=True)
    lock = os.open(output, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{output}: another process is writing there; wait for it") from None
        except OSError:
            print(
                f"note: {output} does not support locks; make sure that nothing else writes there"
            )
        yield
    finally:
        if not existed:
            with suppress(OSError):
                # The folder is empty if nothing has begun.
                output.rmdir()
        os.close(lock)


def finished(output: Path, identity: str) -> Manifest | None:
    """Return the data set in a folder, or None if it is not complete.

    Raises:
        DataError: The folder has another data set, or a damaged one.
    """
    if not (output / FILE_NAME).exists():
        return None
    manifest = load_manifest(output)
    if manifest.origin.inputs != identity:
        raise DataError.of(
            f"{output}: contains another data set, or was made from other files or options; remove"
            f" it or choose {OTHER_OUTPUT}"
        )
    return manifest


def begin(output: Path, identity: str) -> int:
    """Record the identity of the data set to write, or check that it equals the recorded one.

    Returns:
        Wanted number of shards of a split, see `job.shard_count`: `LEAST_SHARDS`, or the number
        that was recorded when the data set was begun. That is 1 if it was begun by a version that
        looked at the size alone, so that its finished shards stay.

    Raises:
        DataError: The folder was begun with another data set.
    """
    begun = output / PARTS / "inputs"
    if not begun.exists():
        write_atomically(begun, f"{identity} {LEAST_SHARDS}")
    recorded, _, least = begun.read_text().partition(" ")
    if recorded != identity:
        raise DataError.of(
            f"{output}: was begun with other files or options; use the same again, remove it or"
            f" choose {OTHER_OUTPUT}"
        )
    return int(least or 1)


@contextmanager
def interruptible(finished_files: Callable[[], str]) -> Iterator[None]:
    """Explain how to continue if the user or the system interrupts the command.

    Args:
        finished_files: Returns how many files are finished, in words.

    Raises:
        UserError: SIGINT or SIGTERM was received; has the exit status that shells use for it.
    """

    def end(number: int, _: object) -> None:
        # The clean-up is short, and some systems send a signal twice.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise _InterruptedError(number)

    try:
        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        # Only the main thread of a process receives signals.
        before = {}
    try:
        yield
    except _InterruptedError as caught:
        error = UserError(
            f"interrupted with {finished_files()} finished; run the same command again to continue"
        )
        error.exit_code = 128 + caught.number
        raise error from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _InterruptedError(BaseException):
    """A signal asked the command to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
