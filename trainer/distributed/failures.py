"""Failures that ranks report to their launcher, through a pipe that all ranks of an attempt share.

An exit status alone does not distinguish an error that the user must fix from a transient one, nor
does it show whether the same error has occurred before.
"""

import json
import os
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import UserError
from trainer.distributed.rank import launched_as
from trainer.errors import PeerError

PIPE = "TRAINER_FAILURES"
"""Environment variable with the number of the pipe's file descriptor."""
_PACKAGE = Path(__file__).parents[1]
_PIPE_BYTES = 1 << 16


@dataclass(frozen=True)
class Failure:
    """An exception that ended a rank."""

    rank: int
    step: int
    """Steps done."""
    status: int
    """Exit status that the exception leads to."""
    explained: bool
    """Whether the message tells the user what to do, so that a restart would not help."""
    what: str
    """Type of the exception and where it was raised; the same for the same failure."""


def tell_failure(error: Exception, step: int) -> None:
    """Report to the launcher, if it is ours, why this rank ends. A rank that only lost another one
    reports nothing.
    """
    pipe = os.environ.get(PIPE)
    if pipe is None or isinstance(error, PeerError):
        return
    launched = launched_as(os.environ)
    explained = isinstance(error, UserError)
    status = error.exit_code if isinstance(error, UserError) else UserError.exit_code
    failure = Failure(launched.rank if launched else 0, step, status, explained, _identify(error))
    # A single write this short is atomic on a pipe. The launcher may be gone.
    with suppress(OSError):
        os.write(int(pipe), json.dumps(asdict(failure)).encode() + b"\n")


def read_failures(pipe: int) -> tuple[Failure, ...]:
    """Return the reported failures in their order; call it when the ranks have ended."""
    os.set_blocking(pipe, False)
    try:
        text = os.read(pipe, _PIPE_BYTES).decode()
    except BlockingIOError:
        return ()
    return tuple(Failure(**json.loads(line)) for line in text.splitlines())


def _identify(error: Exception) -> str:
    """Return type, file and line; the message may contain numbers that differ each time."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    if not frames:
        return type(error).__name__
    frame = (ours or list(frames))[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}"
