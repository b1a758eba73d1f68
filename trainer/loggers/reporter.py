"""Where a run's figures go: console, metrics.jsonl, TensorBoard, MLflow, result.json, report.html.

Only rank 0 reports; on the other ranks every method does nothing.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.checkpoints.writer import Saved
from trainer.config import TrainConfig
from trainer.diagnostics.environment import environment
from trainer.loggers.console import Console
from trainer.loggers.mlflow import tracking
from trainer.loggers.tensorboard import Curves, rewind_curves
from trainer.run_folder import RunFolder, decisive
from trainer.training.evaluator import Evaluation
from trainer.training.plan import Plan
from trainer.training.predictions import Predictions, write_predictions


class Reporter:
    """The reports of one attempt of a run."""

    def __init__(
        self,
        config: TrainConfig,
        plan: Plan,
        folder: RunFolder,
        *,
        chief: bool,
        gpus: Sequence[str] = (),
        changes: Sequence[str] = (),
    ) -> None:
        """`changes` are the options that differ from those that the run had before."""
        self._config, self._plan, self._folder, self._chief = config, plan, folder, chief
        self._gpus, self._changes = gpus, changes
        self.console = Console(plan.last_step, silent=not chief)
        self._curves: Curves | None = None
        self.tracking = tracking(folder.path.name, chief=chief)
        """To be entered before `open`; its end sends what is left."""
        self.attempt = 1

    def headline(self, step: int, classes: int, facts: Sequence[str] = ()) -> None:
        """Say what begins, and the facts of what it begins on."""
        model, plan = self._config.model, self._plan
        start = f"continues at step {step:,}" if step else "starts"
        self.console.say(
            f"{self._folder.path}: {start}: ResNet{model.depth} of width {model.width},"
            f" {model.image_size} px, {classes} classes; {plan.examples:,} images, {plan.epochs}"
            f" epochs, {plan.last_step:,} steps of {plan.global_batch} images, {ranks(plan.ranks)}"
        )
        for change in self._changes:
            self.console.say(f"  changed: {change}")
        for fact in facts:
            self.console.say(f"  {fact}")

    def open(
        self,
        step: int,
        data_version: str,
        model_facts: Mapping[str, Any] | None = None,
        seen: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the first files; called when the first step has shown that the run works.

        Args:
            step: steps done.
            data_version: of the data set.
            model_facts: what config.json says of the model's inputs and outputs.
            seen: what is recorded of the environment beside what any process can tell.
        """
        if not self._chief:
            return
        folder, plan = self._folder, self._plan
        facts = {
            "ranks": plan.ranks,
            "global_batch": plan.global_batch,
            "data_version": data_version,
        }
        if folder.exists:
            folder.metrics.rewind(step)
            rewind_curves(self._tensorboard, step)
        # Also of a run that is continued: its options may have changed.
        folder.create(self._config, {**facts, **(model_facts or {})})
        self.attempt = folder.metrics.attempts() + 1
        surroundings = {**environment(self._gpus), **(seen or {})}
        values = {"attempt": self.attempt, **facts, "environment": surroundings}
        folder.metrics.append("start", step, values)
        self._curves = Curves(self._tensorboard / f"attempt-{self.attempt}")
        chosen = {"preset": self._config.preset, **decisive(self._config)}
        named = {"run": folder.path.name, "attempt": self.attempt, "data_version": data_version}
        # The job of Azure Machine Learning has tags of its own, among the same run's.
        tags = {f"trainer.{name}": value for name, value in named.items()}
        self.tracking.begin(
            {**chosen, "ranks": plan.ranks, "global_batch": plan.global_batch}, tags
        )

    def training(self, step: int, values: dict[str, float]) -> None:
        """Report an interval of training steps."""
        epoch = self._plan.epoch_of(step)
        self.console.metrics(step, epoch, values)
        self.console.progress(step)
        self._write("train", step, {"epoch": epoch, **values})

    def evaluation(self, step: int, result: Evaluation) -> None:
        """Report an evaluation."""
        epoch = self._plan.epoch_of(step)
        self.console.say(
            f"step {step:>6}  epoch {epoch:6.2f}  held-out top-1 {result.top1:.2%}  top-5"
            f" {result.top5:.2%}  loss {result.loss:.4f}  ({result.examples:,} images)"
        )
        values = {"top1": result.top1, "top5": result.top5, "validation_loss": result.loss}
        self._write("evaluation", step, {"epoch": epoch, **values})

    def checkpoint(self, saved: Saved, seconds: Mapping[str, float]) -> None:
        """Note that a state is on disk, and what each phase has taken until now."""
        if self._chief:
            values = {
                "bytes": saved.bytes,
                "write_seconds": saved.seconds,
                "seconds": dict(seconds),
            }
            self._folder.metrics.append("checkpoint", saved.step, values)

    def rolled_back(self, step: int, back: int, images: int, number: int) -> None:
        """Say that training went back, and forget what it reported since.

        Args:
            step: steps done, the last of which was bad.
            back: the step that it goes on from.
            images: how many are left out.
            number: of times in this run.
        """
        if not self._chief:
            return
        self.console.say(
            f"step {step:,}: the loss or a gradient is not finite; rolled back to the checkpoint of"
            f" step {back:,}, leaving out {images:,} images ({number} of"
            f" {self._config.checkpoint.roll_backs} times)"
        )
        self._folder.metrics.rewind(back)
        self.close()
        rewind_curves(self._tensorboard, back)
        self._folder.metrics.append("roll_back", back, {"bad_step": step, "images": images})
        self._curves = Curves(self._tensorboard / f"attempt-{self.attempt}")

    @property
    def _tensorboard(self) -> Path:
        """The folder with one for each attempt's curves; this run's alone, as it may be rewound."""
        place = self._config.log.tensorboard_dir
        if place is not None:
            return Path(place) / self._folder.path.name
        if "AZUREML_RUN_ID" in os.environ:
            return Path("outputs/tblogs")
        return self._folder.path / "tblogs"

    def predictions(
        self,
        step: int,
        predictions: Predictions,
        classes: Sequence[str],
        read_image: Callable[[int], bytes],
    ) -> None:
        """Write what the final weights say of each held-out example; see `write_predictions`."""
        if not self._chief:
            return
        try:
            facts = write_predictions(self._folder.path, predictions, classes, read_image)
        except OSError as error:
            print(f"warning: the predictions cannot be written: {error}", file=sys.stderr)
        else:
            self._folder.metrics.append("predictions", step, facts)

    def stopping(self, step: int, newest: int | None) -> None:
        """Say what is being saved, and what counts should there be no time for it.

        Args:
            step: steps done.
            newest: the newest that is on disk, if any is.
        """
        there = "nothing is saved before it" if newest is None else f"{newest:,} is saved already"
        self.console.say(f"asked to stop: saving step {step:,}; {there}")

    def stopped(self, step: int) -> None:
        """Say how to go on after a stop that was asked for."""
        if not self._chief:
            return
        self._folder.metrics.append("stop", step, {})
        self._write_report()
        self.console.say(
            f"stopped after step {step:,} of {self._plan.last_step:,}; the state is saved in"
            f" {self._folder.path}\nto continue, run the same command with --name"
            f" {self._config.name}"
        )

    def finished(self, step: int, result: dict[str, Any]) -> None:
        """Write result.json and say the same in words."""
        if not self._chief:
            return
        self._folder.metrics.append("finish", step, result)
        # Last, as a run with a result is finished.
        self._folder.write_result(result)
        report = "report.html, " if self._write_report() else ""
        if result["top1"] is not None:
            self.console.say(
                f"held-out top-1 {result['top1']:.2%}, top-5 {result['top5']:.2%} on"
                f" {result['examples']:,} images"
            )
        rate = result["images_per_second"]
        speed = f", {rate:.1f} images/s" if rate else ""
        self.console.say(
            f"trained {step:,} steps in {result['training_seconds']:.1f} s on"
            f" {ranks(self._plan.ranks)}{speed}\n{report}result.json, metrics.jsonl, tblogs and"
            f" checkpoints are in {self._folder.path}"
        )

    def close(self) -> None:
        """Write out what TensorBoard has not yet got."""
        if self._curves is not None:
            self._curves.close()

    def _write_report(self) -> bool:
        """Write report.html if it is wanted; whether it is there."""
        if not self._config.log.report:
            return False
        path = self._folder.path
        try:
            from trainer.report.write import write_report  # noqa: PLC0415 not needed to train

            write_report([path])
        except Exception as error:  # noqa: BLE001 what is trained and saved is not failed by this
            print(
                f"warning: {path}/report.html cannot be written ({type(error).__name__}: {error});"
                f" the run itself is saved. To try again: python -m trainer report {path}",
                file=sys.stderr,
            )
            return False
        return True

    def _write(self, event: str, step: int, values: Mapping[str, float]) -> None:
        if not self._chief:
            return
        self._folder.metrics.append(event, step, values)
        assert self._curves is not None
        self._curves.add(event, step, values)
        self.tracking.add(event, step, values)


def ranks(number: int) -> str:
    """A number of ranks in words."""
    return "1 rank" if number == 1 else f"{number} ranks"
