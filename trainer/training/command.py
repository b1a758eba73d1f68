"""`ml-trainer train`, from its arguments to the ranks that it starts.

TensorFlow is not imported before the configuration has been validated.
"""

import gc
import os
import signal
from pathlib import Path

from common.program import load
from trainer.presets import parse_train


def run(args: list[str]) -> int:
    """Parse the configuration and train, in this process or as a launcher of ranks.

    Args:
        args: Options of `TrainConfig`; with --dry-run they are printed, and nothing is started.

    Returns:
        Exit status.

    Raises:
        ConfigError: The configuration is invalid.
        UserError: See `trainer.training.run.train`.
    """
    dry_run = "--dry-run" in args
    config = parse_train([arg for arg in args if arg != "--dry-run"])
    if dry_run:
        from trainer.training.setup import print_dry_run  # noqa: PLC0415

        print_dry_run(config)
        return 0
    from trainer.distributed.hold import hold_minutes, run_and_hold  # noqa: PLC0415
    from trainer.distributed.launcher import is_rank, launch_with_restarts  # noqa: PLC0415
    from trainer.distributed.rank import launched_as  # noqa: PLC0415

    minutes = hold_minutes(os.environ)
    if minutes:
        launched = launched_as(os.environ)
        folder = Path(config.runs_dir, config.name) if config.name else None
        return run_and_hold(["train", *args], folder, launched.rank if launched else 0, minutes)

    # On Azure a supervisor submits the next attempt of a run.
    restarts = 0 if "AZUREML_RUN_ID" in os.environ else config.restarts
    if (config.ranks > 1 or restarts) and not is_rank(os.environ):
        from trainer.training.setup import set_up_for_launch  # noqa: PLC0415

        setup = set_up_for_launch(config)
        named = ["train", *args, "--name", str(setup.config.name)]
        newest_step = setup.folder.checkpoints.newest_step
        return launch_with_restarts(named, config.ranks, newest_step, restarts, setup.folder.path)
    # An interrupted import may raise any error; the run installs its own handlers.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    train = load("trainer.training.run:train")
    # TensorFlow stays: garbage is looked for among the run's own objects.
    gc.freeze()
    status: int = train(config)
    return status
