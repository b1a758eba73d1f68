"""Reports of a run: console, metrics.jsonl, TensorBoard, observers, result.json and report.html.

Only rank 0 reports; on the other ranks every method does nothing.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from common.text import plural
from trainer.checkpoints.writer import Saved
from trainer.errors import NonFiniteError
from trainer.leaves import TASKS
from trainer.loggers.observer import Observer
from trainer.loggers.tensorboard import Curves, rewind_curves
from trainer.model.description import describe
from trainer.run_folder import decisive
from trainer.tasks.shortcomings import shortcomings
from trainer.tasks.task import Evaluation
from trainer.training.console import Console, class_lines, detailed
from trainer.training.setup import RunSetup


class Reporter:
    """The reports of one attempt of a run."""

    def __init__(self, setup: RunSetup, *, chief: bool) -> None:
        self._setup, self._chief = setup, chief
        self._config, self._plan, self._folder = setup.config, setup.plan, setup.folder
        self._metrics = TASKS[setup.config.task]
        detail = setup.config.log.detail
        self.console = Console(
            setup.plan,
            silent=not chief,
            detail=detailed(os.environ) if detail is None else detail,
        )
        self._curves: Curves | None = None
        self.observers: Sequence[Observer] = ()
        """Receives the metrics as well."""
        self.attempt = 1

    def headline(self, step: int, facts: Sequence[str]) -> None:
        """Print what starts or continues, and facts about the machine."""
        model, plan, classes = self._config.model, self._plan, self._setup.data_set.classes
        start = f"continues at step {step:,}" if step else "starts"
        self.console.say(
            f"{self._folder.path}: {start}: {describe(model)},"
            f" {model.image_size} px, {plural(classes, 'class', 'classes')};"
            f" {plural(plan.examples, 'image')}, {plural(plan.epochs, 'epoch')}"
            + (
                f", {plural(plan.last_step, 'step')} of {plural(plan.global_batch, 'image')},"
                f" {plural(plan.ranks, 'rank')}"
                if self.console.detail
                else ""
            )
        )
        for change in self._setup.changes:
            self.console.say(f"  changed: {change}")
        for fact in facts:
            self.console.say(f"  {fact}")

    def open(self, step: int, environment: Mapping[str, Any]) -> None:
        """Write the first files, once the first step has shown that the run works.

        Args:
            step: Steps done.
            environment: Machine and versions of the attempt.
        """
        if not self._chief:
            return
        folder, record = self._folder, self._setup.record
        if folder.exists:
            folder.metrics.rewind(step)
            rewind_curves(self._tensorboard, step)
        # For a resumed run as well, because its options may have changed.
        folder.create(record)
        if self._setup.code is not None:
            self._setup.code.keep(folder.path)
        self.attempt = folder.metrics.attempts() + 1
        sizes = {"ranks": record.ranks, "global_batch": record.global_batch}
        facts = {**sizes, "data_version": record.data_version}
        values = {"attempt": self.attempt, **facts, "environment": environment}
        folder.metrics.append("start", step, values)
        self._curves = Curves(self._tensorboard / f"attempt-{self.attempt}")
        chosen = {"preset": self._config.preset, **decisive(self._config), **sizes}
        named = {
            "run": folder.path.name,
            "attempt": self.attempt,
            "data_version": record.data_version,
        }
        # The prefix separates these tags from those that Azure Machine Learning sets on its jobs.
        for observer in self.observers:
            observer.begin(chosen, {f"trainer.{name}": value for name, value in named.items()})

    def training(self, step: int, values: dict[str, float]) -> None:
        """Report an interval of training steps."""
        epoch = self._plan.epoch_of(step)
        self.console.metrics(step, values)
        self.console.progress(step)
        self._write("train", step, {"epoch": epoch, **values})

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Report an evaluation."""
        epoch = self._plan.epoch_of(step)
        first = self._metrics.evaluation[0].key
        known = {key: value for key, value in result.baseline.items() if key == first}
        words = self._metrics.words({**result.metrics, "baseline": known})
        self.console.evaluation(step, words, result.loss, result.examples)
        values = {"epoch": epoch, **result.metrics, "validation_loss": result.loss}
        self._write("evaluation", step, values, {"baseline": dict(result.baseline)})

    def checkpoint(self, saved: Saved, seconds: Mapping[str, float]) -> None:
        """Record that a checkpoint is on disk, and the time spent in each phase so far."""
        if self._chief:
            values = {
                "bytes": saved.bytes,
                "write_seconds": saved.seconds,
                "seconds": dict(seconds),
            }
            self._folder.metrics.append("checkpoint", saved.step, values)
            for observer in self.observers:
                observer.saved(saved)

    def rolled_back(self, step: int, back: int, images: int, number: int) -> None:
        """Print that training was rolled back, and drop the metrics since that step.

        Args:
            step: Steps done, the last of which was bad.
            back: Step from which training continues.
            images: Number of images left out.
            number: Number of rollbacks in this run, this one included.
        """
        if not self._chief:
            return
        self.console.say(
            f"step {step:,}: the loss or a gradient is not finite; rolled back to the checkpoint of"
            f" step {back:,}, leaving out {plural(images, 'image')} (rollback {number} of at most"
            f" {self._config.checkpoint.rollbacks})"
        )
        self._folder.metrics.rewind(back)
        self.close()
        rewind_curves(self._tensorboard, back)
        self._folder.metrics.append("roll_back", back, {"bad_step": step, "images": images})
        self._curves = Curves(self._tensorboard / f"attempt-{self.attempt}")

    @property
    def _tensorboard(self) -> Path:
        """Folder with a folder of curves per attempt; of this run alone, as it may be rewound."""
        folder = self._config.log.tensorboard_dir
        if folder is not None:
            return Path(folder) / self._folder.path.name
        if "AZUREML_RUN_ID" in os.environ:
            return Path("outputs/tblogs")
        return self._folder.path / "tblogs"

    def predictions(self, step: int, facts: Mapping[str, Any]) -> None:
        """Record that the predictions of the final weights are written, and how many there are."""
        if self._chief:
            self._folder.metrics.append("predictions", step, facts)

    def stopping(self, step: int, newest: int | None, *, out_of_time: bool) -> None:
        """Print which step is being saved, and which one is left if there is no time for that.

        Args:
            step: Steps done.
            newest: Newest step that is on disk, or None.
            out_of_time: Whether the run stops because of its time limit.
        """
        cause = "asked to stop"
        if out_of_time:
            cause = f"--max-seconds {self._config.max_seconds:g} is reached"
        afterwards = (
            "there is no earlier checkpoint"
            if newest is None
            else f"the newest checkpoint is of step {newest:,}"
        )
        self.console.say(f"{cause}: saving step {step:,}; {afterwards}")

    def ending(self, step: int, why: str) -> None:
        """Print why a run ends before its last step."""
        self.console.say(f"the run ends after step {step:,} of {self._plan.last_step:,}: {why}")

    def stopped(self, step: int) -> None:
        """Print how to continue after a requested stop."""
        if not self._chief:
            return
        self._folder.metrics.append("stop", step, {})
        self._write_report()
        self.console.say(
            f"stopped after step {step:,} of {self._plan.last_step:,}; the state is saved in"
            f" {self._folder.path}\nto continue, run the same command with --name"
            f" {self._config.name}"
        )

    def finished(self, step: int, result: Mapping[str, Any], evaluation: Evaluation | None) -> None:
        """Write result.json and print its main figures.

        Args:
            step: Steps done.
            result: Content of result.json but for the warnings.
            evaluation: Evaluation of the result's weights; None without held-out images.
        """
        if not self._chief:
            return
        warnings = self._warnings(result["evaluated_step"], evaluation) if evaluation else []
        result = {**result, "warnings": warnings}
        self._folder.metrics.append("finish", step, result)
        # After all other files, because result.json marks the run as finished.
        self._folder.write_result(result)
        report = "report.html, " if self._write_report() else ""
        if result["examples"]:
            self.console.say(
                f"held-out {', '.join(self._metrics.words(result))} on"
                f" {result['examples']:,} images"
            )
        for line in (*class_lines(self._folder.path), *(f"warning: {text}" for text in warnings)):
            self.console.say(line)
        rate = result["images_per_second"]
        several = self._plan.ranks > 1 or self.console.detail
        ranks = f" on {plural(self._plan.ranks, 'rank')}" if several else ""
        speed = f", {rate:.1f} images/s" if rate else ""
        self.console.say(
            f"trained {plural(step, 'step')} ({self.console.epoch(step)},"
            f" {self.console.images(step)}) in"
            f" {result['training_seconds']:.1f} s{ranks}{speed}\n{report}result.json,"
            f" metrics.jsonl, tblogs and checkpoints are in {self._folder.path}"
        )

    def _warnings(self, step: int, evaluation: Evaluation) -> list[str]:
        key = self._metrics.training.key
        lines = self._folder.metrics.lines()
        known = [line[key] for line in lines if key in line and line["step"] <= step]
        return shortcomings(
            self._metrics,
            self._config.metric,
            evaluation,
            self._setup.data_set.class_names,
            known[-1] if known else None,
        )

    def close(self) -> None:
        """Flush and close the TensorBoard files."""
        if self._curves is not None:
            self._curves.close()

    def _write_report(self) -> bool:
        """Write report.html if it is enabled; return whether it was written."""
        if not self._config.log.report:
            return False
        path = self._folder.path
        try:
            from trainer.report.write import write_report  # noqa: PLC0415 not needed to train

            write_report([path])
        except Exception as error:  # noqa: BLE001 a report must not fail a run that is saved
            print(
                f"warning: {path}/report.html cannot be written ({type(error).__name__}: {error});"
                f" the run itself is saved. To try again, run: ml-trainer report {path}",
                file=sys.stderr,
            )
            return False
        return True

    def _write(
        self,
        event: str,
        step: int,
        values: Mapping[str, float],
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Write values; those without a curve go to metrics.jsonl alone."""
        if not self._chief:
            return
        self._folder.metrics.append(event, step, {**values, **more})
        assert self._curves is not None
        self._curves.add(event, step, values)
        for observer in self.observers:
            observer.add(event, step, values)


def not_finite(
    step: int, ranks: Sequence[int], size: int, good: str | None, rollbacks: int
) -> NonFiniteError:
    """Return the error of a run that a loss or a gradient ends.

    Args:
        step: The step, counted from 0.
        ranks: Ranks whose part of it was not finite.
        size: World size.
        good: Newest checkpoint; None if nothing is saved yet.
        rollbacks: Rollbacks of the run so far.
    """
    where = f"rank {', '.join(map(str, ranks))}" if ranks else "the sum over ranks"
    if len(ranks) == size > 1:
        # A single weight that is not finite affects the next loss of every rank.
        where = "every rank, of this step or the one before,"
    saved = f"the last good checkpoint is {good}" if good else "nothing is saved yet"
    if rollbacks:
        saved += f"; rolled back {rollbacks} times already"
    return NonFiniteError(
        f"step {step}: the loss or a gradient of {where} is not finite; {saved}. A lower"
        " --optimizer.learning-rate or a longer --optimizer.warmup-epochs usually helps"
    )
