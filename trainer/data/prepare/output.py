"""The folder that is written: who may write it, what was begun there, and how it is left."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import UserError
from common.files import write_atomically
from trainer.data.manifest import FILE_NAME, Manifest, load_manifest
from trainer.data.prepare.shards import PARTS
from trainer.errors import DataError


def check_folder(output: Path) -> None:
    """Make sure that a folder can be written without a loss.

    Raises:
        DataError: it is a file, or holds something else.
    """
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is not a folder; choose another --output")
    if (output / FILE_NAME).exists() or (output / PARTS).exists() or not output.exists():
        return
    if any(output.iterdir()):
        raise DataError(f"{output}: is not empty and holds no {FILE_NAME}; choose another --output")


@contextmanager
def only_writer(output: Path) -> Iterator[None]:
    """Keep two commands from writing the same folder, where its file system has locks.

    Raises:
        UserError: another one is writing.
    """
    existed = output.exists()
    output.mkdir(parents=True, exist_ok=True)
    lock = os.open(output, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{output}: another process is writing there; wait for it") from None
        except OSError:
            print(f"note: {output} has no locks; make sure that nothing else writes there")
        yield
    finally:
        if not existed:
            with suppress(OSError):
                # Nothing has begun if it is empty.
                output.rmdir()
        os.close(lock)


def finished(output: Path, identity: str) -> Manifest | None:
    """The data set in a folder, if it is complete.

    Raises:
        DataError: it is another one, or damaged.
    """
    if not (output / FILE_NAME).exists():
        return None
    manifest = load_manifest(output)
    if manifest.origin.inputs != identity:
        raise DataError(
            f"{output}: holds another data set, or one of other files or options; remove it or"
            " choose another --output"
        )
    return manifest


def begin(output: Path, identity: str) -> None:
    """Note what the shards that will come belong to, or make sure that it is the same.

    Raises:
        DataError: it is not.
    """
    begun = output / PARTS / "inputs"
    if not begun.exists():
        write_atomically(begun, identity)
    elif begun.read_text() != identity:
        raise DataError(
            f"{output}: was begun with other files or options; give the same again, or remove it"
        )


@contextmanager
def interruptible(output: Path) -> Iterator[None]:
    """Say how to go on when a person or a system interrupts.

    Raises:
        UserError: SIGINT or SIGTERM came, with the exit status that shells give to it.
    """

    def end(number: int, _: object) -> None:
        # What is left to do takes no time, and systems are known to send a signal twice.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise _InterruptedError(number)

    try:
        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        # Only a process's main thread gets signals; in another there is nothing to catch.
        before = {}
    try:
        yield
    except _InterruptedError as caught:
        done = sum(1 for _ in (output / PARTS).glob("*.json"))
        error = UserError(
            f"interrupted with {done:,} shards finished; the same command continues there"
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
