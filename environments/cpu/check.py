"""Refuse an image whose Horovod cannot do what its jobs need; run while the image is built."""

import sys
from collections.abc import Callable, Sequence

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

BUILT: dict[str, Callable[[], object]] = {
    "gloo": hvd.gloo_built,
    "mpi": hvd.mpi_built,
    "nccl": hvd.nccl_built,
}


def main(wanted: Sequence[str]) -> str | None:
    """What is wrong, if anything is. Loading Horovod has shown already that it fits TensorFlow.

    Args:
        wanted: ways of exchange, of those in `BUILT`.
    """
    print(f"TensorFlow {tf.__version__}, Horovod {horovod.__version__}")
    missing = [name for name in wanted if not BUILT[name]()]
    if missing:
        return f"error: Horovod was built without {', '.join(missing)}; see its build's output"
    print(f"Horovod has {', '.join(wanted)}")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
