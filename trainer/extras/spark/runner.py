"""`HorovodRunner`, as Databricks had it, for code that uses it.

Databricks deprecated HorovodRunner, and its runtimes after 15.4 LTS ML no longer have Horovod. Its
calls map to those here: `HorovodRunner(np=8).run(main, **kwargs)` runs `main` on 8 tasks of Spark
at once, `np=-2` on 2 processes of the driver, and both return the result of `main` on rank 0. It
neither restarts nor stops in order, because a function says nothing of its checkpoints: for that,
`trainer.extras.spark.run` takes a configuration in place of a function. `driver_log_verbosity` has
no counterpart: the output of ranks on executors is in their logs.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from trainer.distributed.launcher import end_with_launcher, run_ranks
from trainer.extras.spark.driver import BarrierStage, TrainingError, stop_signals
from trainer.extras.spark.ranks import FUNCTION, RESULT, Work
from trainer.extras.spark.session import get_session


class HorovodRunner:
    """Runs a function as the ranks of a Horovod world.

    Args:
        np: Number of ranks: positive on Spark, as many slots must be free; negative on the driver.
    """

    def __init__(self, *, np: int, driver_log_verbosity: str = "all") -> None:  # noqa: ARG002
        self._np = np

    def run(self, main: Callable[..., Any], **kwargs: Any) -> Any:
        """Call a function on all ranks, and return its result on rank 0.

        Args:
            main: Function that calls `hvd.init()`; it is pickled, as is its result.
            kwargs: Its arguments.

        Raises:
            ConfigError: Spark cannot start all ranks at once.
            TrainingError: The function failed on a rank.
        """
        from pyspark import cloudpickle

        function = cloudpickle.dumps(partial(main, **kwargs))
        with stop_signals() as signals, tempfile.TemporaryDirectory() as scratch:
            if self._np > 0:
                stage = BarrierStage(get_session(str(self._np)), self._np)
                attempt = stage.attempt(Work(__name__, (), function=function), signals)
                result = stage.ends[0].result if stage.ends else b""
            else:
                Path(scratch, FUNCTION).write_bytes(function)
                attempt = run_ranks([scratch], -self._np or 1, signals, __name__)
                written = Path(scratch, RESULT)
                result = written.read_bytes() if written.exists() else b""
        if attempt.status:
            raise TrainingError(f"the function ended with status {attempt.status}", attempt.status)
        return cloudpickle.loads(result)


if __name__ == "__main__":
    from pyspark import cloudpickle

    end_with_launcher()
    if os.environ["HOROVOD_SIZE"] == "1":
        # A world of one is served no rendezvous, and needs none.
        for name in [name for name in os.environ if name.startswith("HOROVOD_")]:
            del os.environ[name]
    folder = Path(sys.argv[1])
    returned = cloudpickle.loads((folder / FUNCTION).read_bytes())()
    if os.environ.get("HOROVOD_RANK", "0") == "0":
        (folder / RESULT).write_bytes(cloudpickle.dumps(returned))
