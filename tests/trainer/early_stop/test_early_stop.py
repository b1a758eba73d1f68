"""Runs that end by their evaluations, and whose result is that of their best checkpoint."""

import json
import signal

import pytest

from common.errors import ConfigError
from tests.trainer.support.command import TINY, final_state, metrics, result
from tests.trainer.support.forked import fork_trainer
from trainer.checkpoints.folder import CheckpointFolder
from trainer.config import CheckpointConfig, EvaluationConfig, TrainConfig
from trainer.early_stop.leaf import EarlyStopOptions, ended, waited
from trainer.presets import parse_train


@pytest.mark.parametrize(
    ("scores", "least_gain", "expected"),
    [
        ([], 0.0, 0),
        ([0.5], 0.0, 0),
        ([0.5, 0.5, 0.4], 0.0, 2),
        ([0.5, 0.4, 0.6, 0.6], 0.0, 1),
        # Steps that are too small do not add up unnoticed: they count from the last best one.
        ([0.5, 0.505, 0.509, 0.511], 0.01, 0),
        ([0.5, 0.505, 0.509], 0.01, 2),
        ([1.0, 1.0, 1.0], 0.0, 2),
    ],
)
def test_evaluations_are_counted_since_the_last_one_that_was_better(scores, least_gain, expected):
    assert waited(scores, least_gain) == expected


SOURCE = parse_train([]).data
TWO = CheckpointConfig(every_epochs=2)


def test_what_would_lose_the_best_checkpoint_is_refused():
    with pytest.raises(ConfigError, match=r"keep-best: --early-stop.patience needs it"):
        parse_train(["--preset", "images", "--early-stop.patience", "2"])
    for changes, option in (
        ({"evaluation": EvaluationConfig(3), "checkpoint": TWO}, "--checkpoint.every-epochs"),
        ({"checkpoint": CheckpointConfig(every_epochs=0)}, "--checkpoint.every-epochs"),
        ({"checkpoint": CheckpointConfig(when_busy="skip")}, "--checkpoint.when-busy"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=option):
            TrainConfig(data=SOURCE, early_stop=EarlyStopOptions(2), **changes)


def test_a_run_without_evaluations_has_nothing_that_ends_it():
    measured = TrainConfig(
        data=SOURCE,
        early_stop=EarlyStopOptions(2),
        evaluation=EvaluationConfig(every_epochs=0),
        checkpoint=CheckpointConfig(keep_best=False),
    )
    assert (measured.result_of, ended(measured, [0.5] * 9)) == ("last", "")


def test_the_metric_that_decides_is_one_of_the_task():
    chosen = parse_train(["--early-stop.metric", "balanced_accuracy"])
    assert (chosen.metric.key, parse_train([]).metric.key) == ("balanced_accuracy", "top1")
    assert (chosen.result_of, ended(chosen, [0.5, 0.4])) == ("last", "")
    with pytest.raises(ConfigError, match="'top-1' here; choose one of top1, balanced_accuracy, t"):
        parse_train(["--early-stop.metric", "top-1"])
    with pytest.raises(
        ConfigError, match=r"task segmentation has no metric 'top1' here; .* mean_io"
    ):
        parse_train(["--preset", "scenes", "--early-stop.metric", "top1"])
    five = parse_train(["--early-stop.metric", "top5"])
    assert five.misfits(1) == five.misfits(1, 6) == []
    assert "choose one of top1, balanced_accuracy" in five.misfits(1, 5)[0]


# A rate at which the small network learns, and soon gets no better.
OPTIONS = [
    *("--early-stop.patience", "2", "--checkpoint.keep-best", "True"),
    *("--epochs", "12", "--optimizer.schedule", "step", "--optimizer.learning-rate", "4"),
    # Calls of one step, so that a stop comes after the step that is asked for.
    *("--log.every-steps", "1"),
]


@pytest.mark.long
def test_a_run_ends_early_with_its_best_weights_however_often_it_was_interrupted(workplace):
    def train(name, *args, stop_at=None):
        words = ["train", *TINY, *OPTIONS, "--name", name, *args]
        return fork_trainer(*words, cwd=workplace, stop_at=stop_at)

    ended = train("whole", "--export", "True")
    assert ended.returncode == 0, ended.stderr
    whole, parts = (workplace / "runs" / name for name in ("whole", "parts"))
    lines = metrics(whole, "evaluation")
    scores = {line["step"]: line["top1"] for line in lines}
    assert len(scores) < 12
    assert waited(list(scores.values()), 0.0) == 2
    assert "the run ends after step" in ended.stdout

    # The result is that of the best weights, and so are predictions and export.
    best = max(scores, key=lambda step: (scores[step], step))
    found = result(whole)
    assert (found["best"]["step"], found["top1"]) == (best, scores[best])
    assert (found["steps"], best) == (
        max(scores),
        CheckpointFolder(whole / "checkpoints").best().step,
    )
    facts = json.loads((whole / "export" / "export.json").read_text())
    assert (facts["step"], facts["evaluation"]["top1"]) == (best, scores[best])
    predictions = (whole / "predictions.csv").read_text()
    rows = [line.split(",") for line in predictions.splitlines()]
    columns = {name: number for number, name in enumerate(rows[0])}
    right = sum(row[columns["label"]] == row[columns["predicted"]] for row in rows[1:])
    assert right / len(rows[1:]) == pytest.approx(scores[best])

    # Stopped by one rank within an epoch, and after the last step of the one that ends the run,
    # before its evaluation.
    for step in (10, max(scores) - 1):
        stopped = train("parts", stop_at=(1, signal.SIGUSR1, step))
        assert stopped.returncode == 128 + signal.SIGUSR1, stopped.stderr
    assert metrics(parts, "stop")[-1]["step"] == max(scores)
    assert train("parts").returncode == 0
    assert final_state(parts) == final_state(whole)
    assert {line["step"]: line["top1"] for line in metrics(parts, "evaluation")} == scores
    assert (parts / "predictions.csv").read_text() == predictions
    assert result(parts)["best"] == found["best"]

    # A finished run stays finished; the commands take its best checkpoint unless asked otherwise.
    again = train("parts")
    assert "is finished already" in again.stdout
    for which, step in (([], best), (["--checkpoint", "last"], max(scores))):
        done = fork_trainer("evaluate", "--run", str(parts), *which, cwd=workplace, ranks=1)
        assert f"-{step:09d}" in done.stdout or f"{step}" in done.stdout.split(":")[0]
