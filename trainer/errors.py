"""Errors of a run, each with its exit status, and warnings."""

import errno
import signal
from contextlib import suppress
from typing import Final, Self

from common.errors import UserError
from common.text import without_details

EXIT_STATUS_TAG: Final = "trainer.exit_status"
"""Tag of an attempt's MLflow run, on Azure of its job: its exit status, or `RUNNING` until it ends
by itself."""
RUNNING: Final = "running"
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk."""


def warn(text: str) -> None:
    """Print a warning. The run continues even if its terminal is gone."""
    with suppress(OSError):
        print(f"warning: {text}", flush=True)


class DataError(UserError):
    """A data set that cannot be trained on: missing, damaged, or different from its manifest."""

    exit_code = 3
    sentence = ""
    """The message without details that may identify something; empty if these are not told apart,
    so that all of it may."""

    @classmethod
    def of(cls, *parts: str) -> Self:
        """Return an error of whose message every second part is a detail that may identify
        something: a name or a content of a file.
        """
        error = cls("".join(parts))
        error.sentence = without_details(parts)
        return error


class CheckpointError(UserError):
    """A checkpoint or a run folder that cannot be continued from."""

    exit_code = 4


class SupersededError(CheckpointError):
    """A later attempt of the same run has begun, so this one must not change anything any more."""


class NonFiniteError(UserError):
    """A loss, a gradient, a weight or an output is infinite or not a number."""

    exit_code = 5


class PeerError(UserError):
    """Another rank ended, so this one cannot continue; the cause is in that rank's log."""

    exit_code = 6


class OutOfMemoryError(UserError):
    """A step did not fit into memory; the run continues in smaller micro-batches when it is started
    again. A run ends with this once.
    """

    exit_code = 9


class RunRequestError(UserError):
    """A request to a running training was not answered, or could not be carried out."""


TIME_LIMIT_STATUS = 8
"""Exit status of a run that has saved its state and ended because of its `max_seconds`."""

WATCHDOG_EXIT_CODE = 7
"""Exit status of a rank that its watchdog ended. There is no exception for it, because a thread
that hangs cannot handle one."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""Signals that ask a run to stop after the current step; it then exits with 128 + the signal
number. SIGUSR1 is one of them because mpirun forwards it immediately and ends nothing itself; see
`trainer.distributed.signals` for how mpirun handles SIGTERM."""

STOP_STATUSES = frozenset(128 + number for number in STOP_SIGNALS)
"""Exit statuses of a run that was asked to stop and has saved its state."""
