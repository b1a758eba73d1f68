"""What a rank that fails tells its launcher, through a pipe that all ranks of an attempt share.

An exit status alone does not tell an error that a person must mend from one that chance has caused,
nor whether it is the same as before.
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
"""The environment variable with the number of the pipe's descriptor."""
_PACKAGE = Path(__file__).parents[1]
_PIPE_BYTES = 1 << 16


@dataclass(frozen=True)
class Failure:
    """An exception that ended a rank."""

    rank: int
    step: int
    """Steps done."""
    status: int
    """The exit status that it leads to."""
    explained: bool
    """Whether its message says what to do, so that it must be read and not be tried again."""
    what: str
    """Its type and where it was raised, in words; the same for the same failure."""


def tell_failure(error: Exception, step: int) -> None:
    """Tell the launcher, if it is ours, why this rank ends; nothing of a rank that only lost
    another one.
    """
    pipe = os.environ.get(PIPE)
    if pipe is None or isinstance(error, PeerError):
        return
    launched = launched_as(os.environ)
    explained = isinstance(error, UserError)
    status = error.exit_code if isinstance(error, UserError) else UserError.exit_code
    failure = Failure(launched.rank if launched else 0, step, status, explained, _identify(error))
    # One write of so few bytes never mixes with another rank's. The launcher may be gone.
    with suppress(OSError):
        os.write(int(pipe), json.dumps(asdict(failure)).encode() + b"\n")


def read_failures(pipe: int) -> tuple[Failure, ...]:
    """What the ranks have told, in their order; call it when they have ended."""
    os.set_blocking(pipe, False)
    try:
        text = os.read(pipe, _PIPE_BYTES).decode()
    except BlockingIOError:
        return ()
    return tuple(Failure(**json.loads(line)) for line in text.splitlines())


def _identify(error: Exception) -> str:
    """Type, file and line; a message may hold numbers that differ each time."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    if not frames:
        return type(error).__name__
    frame = (ours or list(frames))[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}"
