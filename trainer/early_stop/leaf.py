"""Options of early stopping, and when it ends a run. Standard library only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from common.annotations import Bounds
from common.text import plural
from trainer.leaf import Feature, Leaf
from trainer.task_descriptions import Metric


@dataclass(frozen=True)
class EarlyStopOptions:
    """The end of a run whose evaluations no longer improve (Prechelt 1998, "Early Stopping - But
    When?").
    """

    patience: Annotated[int, Bounds(at_least=0)] = 0
    """Evaluations in a row without a better metric, after which the run ends; 0 never ends it.
    Above 0, the result, the predictions and the export are those of the best
    checkpoint, whether the run ends early or not; without effect on a run that evaluates only at
    its end. With a schedule that decays to zero, a run may improve most near its end: give at least
    a fifth of its epochs."""

    least_gain: Annotated[float, Bounds(at_least=0, below=1)] = 0.0
    """How much better than the best one before an evaluation must be to count, as a fraction of
    1."""

    metric: str | None = None
    """Metric that says which evaluation is the best, for the end of the run and for the checkpoint
    that `checkpoint.keep_best` keeps: a key of result.json, such as balanced_accuracy, by which
    rare classes count as much as others. None is the first metric of the task, such as top1."""


def waited(scores: Sequence[float], least_gain: float) -> int:
    """Return how many of the last evaluations in a row were not better than the best before them.

    Args:
        scores: The metric of each evaluation, in order.
        least_gain: See `EarlyStopOptions`.
    """
    best, since = float("-inf"), 0
    for score in scores:
        better = score > best + least_gain
        best, since = (score, 0) if better else (best, since + 1)
    return since


def ended(config: Any, scores: Sequence[float]) -> str:
    """Return why a run ends before its last step; "" while it continues. Pure: every rank asks it.

    Args:
        config: `TrainConfig` of the run.
        scores: The metric of all its evaluations, in order.
    """
    options = config.of(EarlyStopOptions)
    patience = options.patience
    if not wanted(config) or waited(scores, options.least_gain) < patience:
        return ""
    return (
        f"{plural(patience, 'evaluation')} in a row {'was' if patience == 1 else 'were'} not"
        f" better than {config.metric.label} {max(scores):.2%}; its result is that of the best"
        " checkpoint"
    )


def wanted(config: Any) -> bool:
    """Return whether evaluations may end a run, whose result is then that of its best weights."""
    # A run that only measures has neither images to evaluate nor evaluations.
    evaluates = config.evaluation.every_epochs > 0 and config.data.source != "synthetic"
    return bool(config.of(EarlyStopOptions).patience > 0 and evaluates)


def _problems(config: Any) -> list[str]:
    problems = _misnamed(config, config.described_task.evaluation)
    if not wanted(config):
        return problems
    checkpoint = config.checkpoint
    evaluations, saves = config.evaluation.every_epochs, checkpoint.every_epochs
    if not saves or evaluations % saves:
        problems.append(
            f"--checkpoint.every-epochs: {saves} does not save after each evaluation, as"
            f" --early-stop.patience needs; use {evaluations}"
        )
    if not checkpoint.keep_best:
        problems.append("--checkpoint.keep-best: --early-stop.patience needs it")
    if checkpoint.when_busy != "wait":
        problems.append(
            "--checkpoint.when-busy: with --early-stop.patience it must be wait, because the best"
            " checkpoint must not be left out"
        )
    return problems


def _misnamed(config: Any, metrics: Sequence[Metric]) -> list[str]:
    chosen, keys = config.of(EarlyStopOptions).metric, [metric.key for metric in metrics]
    if chosen is None or chosen in keys:
        return []
    return [
        f"--early-stop.metric: the task {config.task} has no metric {chosen!r} here; choose one of"
        f" {', '.join(keys)}"
    ]


def misfits(config: Any, classes: int | None) -> list[str]:
    """List why a number of classes, if it is known, does not fit."""
    return [] if classes is None else _misnamed(config, config.described_task.metrics(classes))


LEAF: Final = Leaf(
    key="early_stop",
    options=EarlyStopOptions,
    on_resume="changes the rest",
    features=(
        Feature(
            "early stopping",
            "--early-stop.patience above 0",
            wanted,
            same_steps=True,
        ),
        Feature(
            "choice of a metric",
            "--early-stop.metric balanced_accuracy",
            lambda config: config.of(EarlyStopOptions).metric is not None,
            same_steps=True,
        ),
    ),
    problems=_problems,
)
