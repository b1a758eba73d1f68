"""What can go wrong with a training, by its exit status."""

import signal

from common.errors import UserError


class DataError(UserError):
    """A data set that cannot be trained on: missing, damaged, or not what its manifest says."""

    exit_code = 3


class CheckpointError(UserError):
    """A checkpoint or a run folder that cannot be continued from."""

    exit_code = 4


class SupersededError(CheckpointError):
    """A later attempt of the same run has begun, so this one may change nothing any more."""


class NonFiniteError(UserError):
    """The loss or a gradient became infinite or not a number."""

    exit_code = 5


class PeerError(UserError):
    """Another rank ended, so this one cannot go on; the cause is in that rank's log."""

    exit_code = 6


WATCHDOG_EXIT_CODE = 7
"""Of a rank that its watchdog has ended; no error is raised, as what hangs can catch none."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
"""What asks a run to stop after its step; it then ends with 128 + the signal. SIGUSR1 because
mpirun passes it on at once and ends nothing by itself; see `trainer.distributed.signals` for
what it makes of SIGTERM."""

STOP_STATUSES = frozenset(128 + number for number in STOP_SIGNALS)
"""Exit statuses of a run that was asked to stop and has saved its state."""
