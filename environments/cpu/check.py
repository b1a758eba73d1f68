"""Refuse an image whose Horovod cannot do what its jobs need; run while the image is built."""

import importlib
import sys
from collections.abc import Sequence

import horovod
import tensorflow as tf

WAYS = ("gloo", "mpi", "nccl")
"""Of exchange, that Horovod may be built with."""


def main(wanted: Sequence[str]) -> str | None:
    """What is wrong, if anything is.

    Args:
        wanted: ways of exchange, of `WAYS`.
    """
    print(f"TensorFlow {tf.__version__}, Horovod {horovod.__version__}")
    unknown = [name for name in wanted if name not in WAYS]
    if unknown or not wanted:
        return f"error: {' '.join(unknown) or 'nothing'}: name some of {', '.join(WAYS)}"
    try:
        # Loads its compiled part, which has TensorFlow's symbols in it.
        hvd = importlib.import_module("horovod.tensorflow")
    except (ImportError, AttributeError, OSError, tf.errors.OpError) as error:
        return (
            f"error: Horovod does not load: {error}\nIt runs with the very TensorFlow that it was"
            " compiled against; see its build's output"
        )
    missing = [name for name in wanted if not getattr(hvd, f"{name}_built")()]
    if missing:
        return f"error: Horovod was built without {', '.join(missing)}; see its build's output"
    print(f"Horovod has {', '.join(wanted)}")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
