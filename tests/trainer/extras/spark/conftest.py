"""A session of Spark with two executors, each a JVM of its own with one core."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests import ROOT


def spark_missing():
    """Why there is no Spark here; None if there is."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        return "there is no Java; install openjdk-17-jre-headless"
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "there is no pyspark; `make -C tools test-spark` installs it"
    return None


@pytest.fixture(scope="session")
def spark_path(tmp_path_factory):
    """Environment in which executors and drivers find the trainer, its tests and pyspark."""
    reason = spark_missing()
    if reason:
        pytest.skip(reason)
    import pyspark

    packages = Path(pyspark.__file__).parents[1]
    return {"PYTHONPATH": f"{packages}:{ROOT}", "PYSPARK_PYTHON": sys.executable}


@pytest.fixture(scope="session")
def spark(spark_path, tmp_path_factory):
    from pyspark.sql import SparkSession

    os.environ.update(spark_path)
    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", spark_path["PYTHONPATH"])
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def ranks_of_spark():
    """Processes of ranks that run for a folder of runs."""

    def find(runs):
        import psutil

        return [
            process.pid
            for process in psutil.process_iter(["cmdline"])
            if str(runs) in " ".join(process.info["cmdline"] or ())
            and "--runs-dir" in (process.info["cmdline"] or ())
            and "-m" in (process.info["cmdline"] or ())
        ]

    return find
