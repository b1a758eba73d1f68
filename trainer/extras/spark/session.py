"""The session of Spark: found or started, and checked for the needs of a barrier stage."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from common.errors import ConfigError, UserError
from common.text import plural

SLOT_SECONDS: Final = 15.0
"""Seconds to wait for executors that are still starting."""
REPLACEMENT_SECONDS: Final = 600.0
"""Seconds to wait for executors that replace a lost one."""
_TOLD_EVERY: Final = 10.0


def get_session(cores: str = "*") -> Any:
    """Return the session of this program, or start one.

    Args:
        cores: Cores of a session on this machine alone, if neither spark-submit nor a configuration
            of Spark names a master.

    Raises:
        UserError: pyspark or Java is missing, or the session cannot be started or is one of Spark
            Connect.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UserError(
            f"pyspark cannot be imported ({error}); start the command by spark-submit, or install"
            " the packages of locks/spark-4.txt or locks/spark-3.txt in addition to the trainer's"
        ) from error
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise UserError(
            "Java is missing, which Spark runs on; install Java 17 (in Debian"
            " openjdk-17-jre-headless), or set JAVA_HOME"
        )
    os.environ.setdefault("MASTER", f"local[{cores}]")
    try:
        spark = SparkSession.builder.appName("trainer").getOrCreate()
    except Exception as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"Spark cannot be started ({first}); pyspark 3.5 needs Java 8, 11 or 17, and pyspark 4"
            " Java 17 or newer"
        ) from error
    context = get_context(spark)
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        # Tasks on this machine would run in the first python3 on the path, without these packages.
        context.pythonExec = sys.executable
    return spark


def get_context(spark: Any) -> Any:
    """Return the context of a session.

    Raises:
        UserError: The session is one of Spark Connect, which has none.
    """
    try:
        return spark.sparkContext
    except Exception as error:
        raise UserError(
            "this session is one of Spark Connect, which has no barrier stages; run on a cluster"
            " of a single user, or by spark-submit"
        ) from error


def check_allocation(context: Any) -> None:
    """Check that executors stay as long as a run.

    Raises:
        ConfigError: Dynamic allocation is on, which barrier stages refuse.
    """
    if context.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        raise ConfigError(
            [
                "spark.dynamicAllocation.enabled: Spark starts all ranks at once only if it is"
                " false; set it to false, and spark.executor.instances to the executors that the"
                " ranks need"
            ]
        )


def wait_for_slots(
    context: Any, ranks: int, seconds: float, stopped: Callable[[], bool] = bool
) -> None:
    """Wait until the executors can run all ranks at once.

    Spark itself would wait ten minutes for them, and then fail.

    Args:
        context: `SparkContext`.
        ranks: Number of ranks.
        seconds: Longest time to wait.
        stopped: Returns whether the user has asked to stop, which ends the wait.

    Raises:
        ConfigError: They cannot in this time.
    """
    began = last_note = time.monotonic()
    while (slots := _slots(context)) < ranks and not stopped():
        now = time.monotonic()
        if now - began > seconds:
            raise ConfigError(
                [
                    f"--num-proc: {plural(ranks, 'rank')}, but Spark has {plural(slots, 'slot')}"
                    f" after {seconds:.0f} s; ask for more executors (spark.executor.instances), or"
                    " for more slots in each: its spark.executor.cores divided by spark.task.cpus,"
                    " with GPUs those divided by spark.task.resource.gpu.amount"
                ]
            )
        if now - last_note > _TOLD_EVERY:
            last_note = now
            print(f"waiting for executors: {slots} of {plural(ranks, 'slot')}", flush=True)
        time.sleep(0.5)


def _slots(context: Any) -> int:
    """Return the tasks that can run at once, by the number with which Spark checks a barrier stage
    (SparkContext.maxNumConcurrentTasks).
    """
    scala = context._jsc.sc()  # noqa: SLF001 - pyspark does not offer it
    profile = scala.resourceProfileManager().defaultResourceProfile()
    return int(scala.maxNumConcurrentTasks(profile))
