"""What ranks of tests need, loaded for them to be forked from; no thread and no device is begun."""

import os

os.environ |= {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_USE_LEGACY_KERAS": "1",
    # It would start its threads when it is loaded, and a fork has only the one that asked for it.
    "OPENBLAS_NUM_THREADS": "1",
}

from tests.trainer.support import scenarios  # noqa: F401
