"""What ranks of tests need, loaded for them to be forked from; no thread and no device is begun."""

import gc
import importlib
import os

os.environ |= {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_USE_LEGACY_KERAS": "1",
    # It would start its threads when it is loaded, and a fork has only the one that asked for it.
    "OPENBLAS_NUM_THREADS": "1",
}

for name in (
    "tests.trainer.support.scenarios",
    "trainer.tasks.classification.report",
    "trainer.cli",
    "trainer.export.exporter",
    "trainer.extras.profiler.observer",
    "trainer.report.run_page",
    "trainer.report.write",
    "trainer.training.command",
    "trainer.training.run",
):
    importlib.import_module(name)

# A collection writes into each object that it looks at: every rank would copy all that is shared.
gc.collect()
gc.freeze()
