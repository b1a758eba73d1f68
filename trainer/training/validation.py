"""The evaluations of a run: when there was one, what it gave, and what it says of each image."""

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer.data.rank_data import RankData
from trainer.distributed.horovod import Communicator
from trainer.loggers.reporter import Reporter
from trainer.training.evaluator import Evaluation, Evaluator
from trainer.training.metrics import Chrono
from trainer.training.predictions import gather
from trainer.training.setup import Prepared

DATA_ERRORS = (
    tf.errors.InvalidArgumentError,
    tf.errors.DataLossError,
    tf.errors.NotFoundError,
    tf.errors.OutOfRangeError,
)
"""How TensorFlow fails when data cannot be read."""


class HeldOut:
    """The held-out images of a run. All ranks take part in each method but `at`."""

    def __init__(
        self,
        evaluator: Evaluator,
        feed: RankData,
        prepared: Prepared,
        communicator: Communicator,
        reporter: Reporter,
        alive: Callable[[], None],
    ) -> None:
        """`alive` is called with each batch."""
        self._evaluator, self._feed, self._prepared = evaluator, feed, prepared
        self._world, self._reporter, self._alive = communicator, reporter, alive
        self._step = -1
        self.latest: Evaluation | None = None
        self.best: dict[str, float] | None = None
        """Step and top-1 of the best evaluation of the run."""
        self.seconds = 0.0
        """Seconds of the run up to the end of the latest evaluation."""

    def restore(self, meta: dict[str, Any], seconds: float) -> None:
        """Take over what a checkpoint knows."""
        self.best = meta["best"]
        if meta["evaluation"]:
            self.latest, self._step = Evaluation(**meta["evaluation"]), meta["step"]
            self.seconds = seconds

    def at(self, step: int) -> Evaluation | None:
        """The evaluation of these very weights, if there was one."""
        return self.latest if self._step == step else None

    def evaluate(self, step: int, chrono: Chrono) -> None:
        """Evaluate, unless these very weights have been, or there is nothing to evaluate on."""
        if not self._feed.has_validation or self._step == step:
            return
        with chrono.phase("evaluation"):
            self.latest = self._run()
        self._step, self.seconds = step, chrono.total
        if self.best is None or self.latest.top1 >= self.best["top1"]:
            self.best = {"step": step, "top1": self.latest.top1}
        self._reporter.evaluation(step, self.latest)

    def write_predictions(self, step: int) -> None:
        """Write what the final evaluation says of each image."""
        manifest = self._prepared.manifest
        if manifest is None:
            return
        if self._evaluator.predictions is None:
            # An attempt that was killed before it wrote them has evaluated these very weights.
            self._run()
        mine, begin = self._evaluator.predictions, self._feed.validation_share.start
        assert mine is not None
        everyone = gather(mine, begin, self._world)
        self._reporter.predictions(step, everyone, manifest.classes, self._feed.validation_image)

    def _run(self) -> Evaluation:
        try:
            return self._evaluator.run(self._batches())
        except DATA_ERRORS as error:
            self._feed.explain_validation(error)
            raise

    def _batches(self) -> Iterator[dict[str, Any]]:
        for batch in self._feed.validation():
            self._alive()
            yield batch
