"""Where a run's figures go."""

from dataclasses import replace

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from trainer.config import LogConfig
from trainer.presets import PRESETS
from trainer.training.reporter import Reporter
from trainer.training.setup import set_up


def open_run(tmp_path, name, step):
    log = LogConfig(tensorboard_dir=str(tmp_path / "shared"), report=False)
    runs = str(tmp_path / "runs")
    setup = set_up(replace(PRESETS["synthetic"], runs_dir=runs, log=log), 2, name)
    reporter = Reporter(setup, chief=True)
    reporter.open(step, {})
    return reporter


def steps(folder):
    seen = EventAccumulator(str(folder), purge_orphaned_data=False)
    seen.Reload()
    return [point.step for point in seen.Scalars("train/loss")]


def test_a_run_that_goes_back_leaves_the_curves_of_others(tmp_path):
    for name in ("first", "second"):
        reporter = open_run(tmp_path, name, 0)
        for step in (5, 10, 15):
            reporter.training(step, {"loss": float(step)})
        reporter.close()
    again = open_run(tmp_path, "second", 10)
    again.training(15, {"loss": 0.5})
    again.close()
    assert steps(tmp_path / "shared" / "first" / "attempt-1") == [5, 10, 15]
    assert steps(tmp_path / "shared" / "second" / "attempt-1") == [5, 10]
    assert steps(tmp_path / "shared" / "second" / "attempt-2") == [15]
