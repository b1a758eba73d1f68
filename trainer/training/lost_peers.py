"""Errors of TensorFlow that the end of another rank has caused."""

from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from trainer.errors import PeerError


@contextmanager
def naming_lost_peers(rank: int) -> Iterator[None]:
    """Convert errors of TensorFlow that another rank has caused.

    Args:
        rank: This rank.

    Raises:
        PeerError: Another rank ended.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if lost_peer(error):
            first_line = error.message.splitlines()[0]
            raise PeerError(f"rank {rank}: another rank ended: {first_line}") from error
        raise


def lost_peer(error: tf.errors.OpError) -> bool:
    """Return whether a failed step means that another rank is gone. Horovod has no error type for
    that.
    """
    return isinstance(error, tf.errors.UnknownError) and any(
        sign in error.message for sign in ("Horovod", "Connection", "Timed out", "gloo")
    )
