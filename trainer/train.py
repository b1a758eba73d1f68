"""One training run, from top to bottom."""

import gc
import os
import signal

import tensorflow as tf

from trainer import notice
from trainer.config import TrainConfig
from trainer.device import set_up_device
from trainer.distributed import connect
from trainer.errors import PeerError
from trainer.failures import tell_failure
from trainer.launch import end_with_launcher
from trainer.place import launched_as
from trainer.stop import STOP_SIGNALS, StopRequest
from trainer.training import Training
from trainer.watchdog import Watchdog


def train(config: TrainConfig) -> int:
    """Train, evaluate and save, as one rank of the world that the launcher made.

    Returns:
        0, or 128 + the signal that asked the run to stop.

    Raises:
        TrainerError: with what went wrong and what to do.
    """
    end_with_launcher()
    with Watchdog(config.watchdog, launched_as(os.environ)) as watchdog:
        try:
            return _train(config, watchdog)
        except Exception as error:
            tell_failure(error, watchdog.step)
            raise


def _train(config: TrainConfig, watchdog: Watchdog) -> int:
    # Horovod's start waits for the other ranks where no handler of Python's would run.
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    communicator = connect(config.exchange)
    stop = StopRequest()
    stop.install()
    if notice.expects(os.environ):
        notice.listen()
    set_up_device(config, communicator)
    try:
        status = Training(config, communicator, watchdog).run(stop)
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
