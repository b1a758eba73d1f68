"""The evaluations of a run on its validation split, and the predictions of the final one."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from common.errors import UserError
from common.program import load
from trainer.data.rank_data import RankData
from trainer.distributed.communicator import Communicator
from trainer.early_stop.leaf import ended
from trainer.leaves import in_use
from trainer.model.weights import check_statistics
from trainer.tasks.task import Array, Evaluation, HeldOut, Predictions, Task
from trainer.training.evaluator import Evaluator, gather
from trainer.training.metrics import PhaseTimer
from trainer.training.predicted import Predicted
from trainer.training.reporter import Reporter
from trainer.training.setup import RunSetup


class Validation:
    """The evaluations of a run on its validation split. All ranks take part in `evaluate` and
    `write_predictions`.
    """

    def __init__(
        self,
        task: Task,
        evaluator: Evaluator,
        rank_data: RankData,
        setup: RunSetup,
        communicator: Communicator,
        reporter: Reporter,
        timer: PhaseTimer,
        alive: Callable[[], None],
        *,
        shown: bool,
    ) -> None:
        """Args:
        task: The task.
        evaluator: Evaluates the model.
        rank_data: Data of this rank.
        setup: Set-up of the run.
        communicator: World of ranks.
        reporter: Reports of the run.
        timer: Times the phases.
        alive: Called after each batch.
        shown: Whether copies of held-out images may be kept.
        """
        self._task, self._evaluator = task, evaluator
        self._rank_data, self._setup = rank_data, setup
        self._world, self._reporter = communicator, reporter
        self._timer, self._alive, self._shown = timer, alive, shown
        self._step = -1
        self._key = setup.config.metric.key
        self.latest: Evaluation | None = None
        self.best: dict[str, float] | None = None
        """Step and metric of the best evaluation of the run."""
        self._scores: list[float] = []
        self.seconds = 0.0
        """Seconds in all phases of the run, up to the end of the latest evaluation."""

    def restore(self, meta: Mapping[str, Any]) -> None:
        """Restore the latest and the best evaluation from a checkpoint; forget those after it."""
        self.best, evaluation = meta["best"], meta["evaluation"]
        self._scores, self._evaluator.predictions = list(meta.get("scores", ())), None
        first = self._task.description.evaluation[0].key
        if meta.get("decided_by", first) != self._key:
            # Scores of another metric say nothing.
            self.best, self._scores = None, []
        self._step, self.latest = -1, None
        if evaluation:
            self._step, self.latest = meta["step"], Evaluation.from_json(evaluation)
            self.seconds = self._timer.total

    def to_meta(self, step: int) -> dict[str, Any]:
        """Return data for the checkpoint of a step: the evaluation of these weights, if there was
        one, and the best evaluation of the run.

        Raises:
            NonFiniteError: A moving statistic is not finite, so the state must not be saved.
        """
        check_statistics(self._evaluator.model, step)
        evaluation = self.latest if self._step == step else None
        scores = {"scores": list(self._scores)} if self._setup.config.result_of == "best" else {}
        evaluated = evaluation.to_json() if evaluation else None
        return {
            "evaluation": evaluated,
            "best": self.best,
            "decided_by": self._key,
            **scores,
        }

    @property
    def ended(self) -> str:
        """Why the evaluations end the run, on all ranks alike; "" while it continues."""
        return ended(self._setup.config, self._scores)

    def is_due(self, epoch: int, step: int) -> bool:
        """Return whether the weights after an epoch are still to be evaluated."""
        every = self._setup.config.evaluation.every_epochs
        lacking = self._rank_data.has_validation and self._step != step
        return every > 0 and epoch % every == 0 and lacking

    def end_epoch(self, epoch: int, step: int) -> bool:
        """Evaluate if that is due after an epoch; return whether this ends the run."""
        if not self.is_due(epoch, step):
            return False
        self.evaluate(step)
        if self.ended:
            self._reporter.ending(step, self.ended)
        return bool(self.ended)

    def result(self, step: int) -> dict[str, Any]:
        """Return what result.json has of the latest evaluation: metrics by key, None without one;
        the number of examples; the step of the weights; and with an evaluation its loss and the
        metrics of the baseline.
        """
        keys = [metric.key for metric in self._task.description.metrics(self._task.classes)]
        if self.latest is None:
            return {**dict.fromkeys(keys), "examples": 0, "evaluated_step": step}
        return {
            **{key: self.latest.metrics.get(key) for key in keys},
            "examples": self.latest.examples,
            "evaluated_step": step,
            "validation_loss": self.latest.loss,
            "baseline": dict(self.latest.baseline),
        }

    def evaluate(self, step: int) -> None:
        """Evaluate, unless these weights have been evaluated already or there are no held-out
        images.
        """
        if not self._rank_data.has_validation or self._step == step:
            return
        with self._timer.phase("evaluation"):
            check_statistics(self._evaluator.model, step)
            self.latest = self._evaluator.run(self._batches())
        self._step, self.seconds = step, self._timer.total
        score = self.latest.metrics[self._key]
        self._scores.append(score)
        if self.best is None or score >= self.best[self._key]:
            self.best = {"step": step, self._key: score}
        self._reporter.evaluation(step, self.latest)

    def write_predictions(self, step: int) -> None:
        """Write the final evaluation's prediction for each image."""
        if not self._rank_data.has_validation:
            return
        if self._evaluator.predictions is None:
            # Other weights were evaluated since, or an attempt was killed before it wrote them.
            again = self._evaluator.run(self._batches())
            # A checkpoint has no counts by class, and that of an earlier version fewer metrics.
            known = self.latest or again
            metrics = {**again.metrics, **known.metrics}
            self.latest = replace(again, loss=known.loss, metrics=metrics)
        predictions, first = self._evaluator.predictions, self._rank_data.validation_share.start
        assert predictions is not None
        predictions = gather(predictions, first, self._world)
        if not self._world.rank:
            self._write(step, predictions)
        self._tell_leaves(Predicted(
            self._setup.config,
            self._setup.folder.path,
            step,
            self._world,
            predictions,
            self._setup.data_set.class_names,
            first,
            lambda: self._evaluator.outputs(self._batches()),
            self._rank_data.validation_names,
            self._reporter.console.say,
        ))  # fmt: skip

    def _tell_leaves(self, predicted: Predicted) -> None:
        for leaf in in_use(predicted.config):
            if leaf.predicted:
                try:
                    load(leaf.predicted)(predicted)
                except (OSError, UserError) as error:
                    print(f"warning: {predicted.folder}: {error}", file=sys.stderr, flush=True)

    def _write(self, step: int, predictions: Predictions) -> None:
        held_out = HeldOut(
            self._setup.data_set.class_names,
            self._rank_data.validation_image,
            self._predict,
            shown=self._shown,
            groups=self._rank_data.validation_groups(),
        )
        try:
            facts = self._task.write_predictions(self._setup.folder.path, predictions, held_out)
        except OSError as error:
            print(f"warning: the predictions cannot be written: {error}", file=sys.stderr)
        else:
            self._reporter.predictions(step, facts)

    def _predict(self, example: int) -> tuple[Array, Array, Array]:
        """See `HeldOut.predict`."""
        image, target = self._rank_data.validation_example(example)
        return image, target, self._evaluator.logits(image[None])[0]

    def _batches(self) -> Iterator[dict[str, Any]]:
        for batch in self._rank_data.validation():
            self._alive()
            yield batch
