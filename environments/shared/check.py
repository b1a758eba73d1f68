"""Fail the build of an image whose Horovod lacks a feature that its jobs need."""

import importlib
import sys
from collections.abc import Sequence

import horovod
import tensorflow as tf

WAYS = ("gloo", "mpi", "nccl")
"""Communication backends that Horovod may be built with."""


def main(wanted: Sequence[str]) -> str | None:
    """Check Horovod, and return an error message or None.

    Args:
        wanted: Required backends, from `WAYS`.
    """
    print(f"TensorFlow {tf.__version__}, Horovod {horovod.__version__}")
    unknown = [name for name in wanted if name not in WAYS]
    if unknown or not wanted:
        problem = f"unknown backend {' '.join(unknown)}" if unknown else "no backend given"
        return f"error: {problem}; choose from {', '.join(WAYS)}"
    try:
        # Loads the compiled library, which is linked against TensorFlow.
        hvd = importlib.import_module("horovod.tensorflow")
    except (ImportError, AttributeError, OSError, tf.errors.OpError) as error:
        return (
            f"error: Horovod cannot be imported: {error}\nIt works only with the TensorFlow version"
            " that it was compiled against; see the output of its build"
        )
    missing = [name for name in wanted if not getattr(hvd, f"{name}_built")()]
    if missing:
        return f"error: Horovod was built without {', '.join(missing)}; see the output of its build"
    print(f"Horovod has {', '.join(wanted)}")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
