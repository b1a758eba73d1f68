"""`ml-trainer spark`."""

from dataclasses import dataclass
from typing import Annotated

from common.arguments import parse
from trainer.config import NotNegative, Positive
from trainer.extras.spark.driver import run as run_on
from trainer.extras.spark.session import get_session
from trainer.presets import parse_train, to_args


@dataclass(frozen=True)
class SparkOptions:
    """Train on a Spark cluster, each rank in a task of its own: `spark --num-proc 8 -- OPTIONS`
    with the options of `train` after `--`. Start it by spark-submit, or by Python alone for a
    session on this machine.
    """

    num_proc: Annotated[int, Positive] = 1
    """Number of ranks; as many tasks must be able to run at once."""

    restarts: Annotated[int, NotNegative] = 3
    """How often in a row a crashed run is restarted without a newer checkpoint."""


def run(args: list[str]) -> int:
    """Train on a Spark cluster, on the session of this program.

    Args:
        args: Options, `--`, and the options of `train`.

    Raises:
        UserError: See `trainer.extras.spark.driver.run`.
    """
    end = args.index("--") if "--" in args else len(args)
    options = parse(SparkOptions(), "spark", args[:end])
    config = parse_train(args[end + 1 :])
    spark = get_session(str(options.num_proc))
    try:
        run_on(spark, to_args(config), options.num_proc, options.restarts)
    finally:
        spark.stop()
    return 0
