"""Runs and preparations on Spark, in the only folder that imports pyspark. Needs `parquet`.

    from trainer.extras.spark import run
    run(spark, ["--preset", "images", "--data.dir", "/mnt/images"], num_proc=8)

pyspark and its Java belong to the cluster, not to the trainer's environment, so the names here are
imported only when they are used.
"""

from importlib import import_module
from typing import Any, Final

_MODULES: Final = {
    "run": "driver",
    "HorovodRunner": "runner",
    "ImageClassifier": "classifier",
    "on_spark": "preparation",
}
"""Module of each public name."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
