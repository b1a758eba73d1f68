"""One training run, from top to bottom."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tensorflow as tf

from trainer.config import TrainConfig
from trainer.diagnostics.device import set_up_device
from trainer.diagnostics.nccl import NcclLog
from trainer.distributed import mpirun_signals
from trainer.distributed.failures import tell_failure
from trainer.distributed.horovod import connect
from trainer.distributed.launcher import end_with_launcher
from trainer.distributed.rank import Place, launched_as
from trainer.distributed.signals import StopRequest
from trainer.distributed.watchdog import Watchdog
from trainer.errors import STOP_SIGNALS, PeerError
from trainer.training.run import Training


def train(config: TrainConfig) -> int:
    """Train, evaluate and save, as one rank of the world that the launcher made.

    Returns:
        0, or 128 + the signal that asked the run to stop.

    Raises:
        UserError: with what went wrong and what to do.
    """
    end_with_launcher()
    place = launched_as(os.environ)
    with Watchdog(config.watchdog, place) as watchdog, nccl_log(place) as nccl:
        if nccl is not None:
            watchdog.last_words = nccl.last_words
        try:
            return _train(config, watchdog, nccl)
        except Exception as error:
            tell_failure(error, watchdog.step)
            raise


@contextmanager
def nccl_log(place: Place | None) -> Iterator[NcclLog | None]:
    """Where rank 0's NCCL writes, if it may have something to say."""
    chief_of_many = place is not None and place.rank == 0 and place.size > 1
    log = NcclLog.begin(os.environ) if chief_of_many and has_gpus() else None
    try:
        yield log
    except BaseException:
        if log is not None:
            log.end(failed=True)
        raise
    if log is not None:
        log.end()


def has_gpus() -> bool:
    """Whether this machine has a GPU that NCCL may use; known before anything is loaded."""
    return any(Path("/dev").glob("nvidia[0-9]*"))


def _train(config: TrainConfig, watchdog: Watchdog, nccl: NcclLog | None) -> int:
    # Horovod's start waits for the other ranks where no handler of Python's would run.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    communicator = connect(config.exchange)
    stop = StopRequest()
    stop.install()
    if mpirun_signals.expects(os.environ):
        mpirun_signals.listen()
    set_up_device(config, communicator)
    try:
        status = Training(config, communicator, watchdog, nccl).run(stop)
    except tf.errors.OpError as error:
        if lost_peer(error):
            first_line = error.message.splitlines()[0]
            raise PeerError(
                f"rank {communicator.rank}: another rank ended: {first_line}"
            ) from error
        raise
    stop.detach()
    # What generates records calls Python as it ends, so it must end before Python does.
    gc.collect()
    communicator.shutdown()
    return status


def lost_peer(error: tf.errors.OpError) -> bool:
    """Whether a failed step means that another rank is gone; Horovod has no error type for it."""
    return isinstance(error, tf.errors.UnknownError) and any(
        sign in error.message for sign in ("Horovod", "Connection", "Timed out", "gloo")
    )
