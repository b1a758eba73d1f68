"""The data of a run folder for a report, as far as they exist. Standard library only.

A run may be in progress, stopped, killed in the middle of a line, or copied without some of its
files. So missing data are absent here, and each file that cannot be used is a sentence in
`Run.problems`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isclose, isfinite
from pathlib import Path
from statistics import median
from typing import Any, Literal

from common import fields
from common.errors import ConfigError
from common.files import parse_json
from trainer.config import TrainConfig
from trainer.errors import CheckpointError
from trainer.leaves import TASKS
from trainer.loggers.metrics_file import MetricsFile
from trainer.task_descriptions import TaskDescription

POINTS = 1000
"""Largest number of points of a curve; a longer curve is averaged."""

IDENTIFYING = ("name", "runs_dir", "max_seconds")
"""Options that identify or limit a run, and do not affect its training."""

COST = "cost.json"
"""File with the estimated cost of a run, which `python -m jobs download` and `compare` write."""

EVALUATIONS = "evaluations"
"""Folder of a run with a folder for each evaluation on images that the run does not hold out."""

_COURSE = ("start", "train", "stop", "finish")
"""Events that determine the state of a run."""

MetricsLine = dict[str, Any]
"""A line of metrics.jsonl with at least `event` and `step`."""


@dataclass(frozen=True)
class Curve:
    """One metric over the steps, as sequences of equal length."""

    steps: tuple[int, ...]
    epochs: tuple[float | None, ...]
    values: tuple[float, ...]

    def is_close(self, other: "Curve") -> bool:
        """Return whether another curve has the same values at the same steps, but for rounding."""
        pairs = zip(self.values, other.values, strict=False)
        return self.steps == other.steps and all(isclose(*pair, rel_tol=1e-4) for pair in pairs)

    def thinned(self) -> "Curve":
        """Return the curve averaged over neighbours, with at most `POINTS` points."""
        width = -(-len(self.steps) // POINTS)
        if width <= 1:
            return self
        ends = [min(start + width, len(self.steps)) for start in range(0, len(self.steps), width)]
        means = [sum(self.values[end - width : end]) / width for end in ends[:-1]]
        rest = self.values[ends[-2] :]
        last = [end - 1 for end in ends]
        return Curve(
            tuple(self.steps[index] for index in last),
            tuple(self.epochs[index] for index in last),
            (*means, sum(rest) / len(rest)),
        )


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run."""

    number: int
    step: int
    """Steps done when the attempt started."""
    time: float | None
    """Start of the attempt, in seconds since 1970."""
    ranks: int | None
    environment: Mapping[str, Any]


@dataclass(frozen=True)
class Summary:
    """The result of a run, or its progress so far."""

    final: bool
    """Whether this is the final result; otherwise the newest metrics."""
    step: int
    epoch: float | None
    metrics: Mapping[str, float | None]
    """Metrics of the task on the evaluated images, by key."""
    baseline: Mapping[str, float]
    """The same metrics of a prediction that ignores the images; empty if they are not known."""
    warnings: tuple[str, ...]
    """Notes that a reader must know before the metrics."""
    loss: float | None
    """Mean loss of the evaluated images, after the step that the metrics are of."""
    examples: int | None
    """Number of evaluated images."""
    images_per_second: float | None
    """Images/s: the mean over the training time of the result, or the median of the intervals so
    far."""
    seconds: float | None
    """Seconds from the first step to the last evaluation, or of all phases so far."""
    phases: Mapping[str, float]
    """Seconds in each phase."""


@dataclass(frozen=True)
class Cost:
    """Cost of a run by the estimate of the program that submitted it."""

    amount: float
    currency: str


@dataclass(frozen=True)
class Run:
    """One run folder."""

    path: Path
    name: str
    stored: Mapping[str, Any]
    """Content of config.json."""
    config: TrainConfig | None
    lines: tuple[MetricsLine, ...]
    result: Mapping[str, Any] | None
    problems: tuple[str, ...]
    cost: Cost | None = None
    """Estimated cost of all attempts; None if it is unknown."""

    @property
    def state(self) -> Literal["finished", "stopped", "unfinished"]:
        """State of the run; unfinished: in progress, or ended without recording why."""
        events = [e for line in self.lines if (e := line["event"]) in _COURSE]
        last = events[-1] if events else ""
        if last == "finish" and self.result is not None:
            return "finished"
        return "stopped" if last == "stop" else "unfinished"

    @property
    def evaluated(self) -> bool:
        """Whether it is an evaluation of a run on images that the run does not hold out."""
        return self.path.resolve().parent.name == EVALUATIONS

    @property
    def images(self) -> str:
        """Word for the images that the metrics are of."""
        split = self.path.resolve().name.rpartition("-")[2] if self.evaluated else ""
        return {"test": "test", "all": "evaluated"}.get(split, "held-out")

    @property
    def task(self) -> TaskDescription:
        """Metrics of the task."""
        return TASKS[self.config.task if self.config else "classification"]

    def of(self, event: str) -> list[MetricsLine]:
        return [line for line in self.lines if line["event"] == event]

    def curve(self, event: str, key: str) -> Curve:
        """Return the curve of a metric, from all lines that contain it."""
        lines = [line for line in self.of(event) if number(line.get(key)) is not None]
        return Curve(
            tuple(line["step"] for line in lines),
            tuple(number(line.get("epoch")) for line in lines),
            tuple(float(line[key]) for line in lines),
        )

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Attempts in the order of time."""
        return tuple(
            Attempt(
                order,
                line["step"],
                number(line.get("time")),
                line["ranks"] if isinstance(line.get("ranks"), int) else None,
                mapping(line.get("environment")),
            )
            for order, line in enumerate(self.of("start"), 1)
        )

    @cached_property
    def checkpoints(self) -> tuple[int, ...]:
        """Steps after which the state was saved."""
        # A run resumes from a checkpoint even if it was killed before it could record it.
        continued = {attempt.step for attempt in self.attempts if attempt.step}
        return tuple(sorted(continued | {line["step"] for line in self.of("checkpoint")}))

    @cached_property
    def summary(self) -> Summary:
        """The result if the run is finished, otherwise the newest value of each metric."""
        final = self.state == "finished"
        source = mapping(self.result) if final else {}
        warnings = source.get("warnings")
        evaluations = self.of("evaluation") or [{}]
        # In versions without its step, the result of a run that evaluations end is the best one's.
        best = self.config is not None and self.config.result_of == "best"
        step_of = number(source.get("evaluated_step")) or (
            number(mapping(source.get("best")).get("step")) if best else None
        )
        of_step = [line for line in evaluations if line.get("step") == step_of]
        evaluation = (of_step or evaluations)[-1]
        timed = [mapping(line.get("seconds")) for line in self.lines]
        phases = numbers(source.get("seconds")) or numbers(next(filter(None, timed[::-1]), {}))
        rates = self.curve("train", "images_per_second").values
        step = max((line["step"] for line in self.lines), default=0)
        epochs = [number(line.get("epoch")) for line in self.lines]
        return Summary(
            final,
            step=int(number(source.get("steps")) or step),
            epoch=next((epoch for epoch in epochs[::-1] if epoch is not None), None),
            metrics={
                metric.key: number({**evaluation, **source}.get(metric.key))
                for metric in self.task.evaluation
            },
            baseline=numbers(source.get("baseline") or evaluation.get("baseline")),
            warnings=tuple(map(str, warnings if isinstance(warnings, list) else ())),
            loss=number(source.get("validation_loss", evaluation.get("validation_loss"))),
            examples=int(number(source.get("examples")) or 0) or None,
            images_per_second=number(source.get("images_per_second"))
            or (median(rates) if rates else None),
            seconds=number(source.get("training_seconds")) or sum(phases.values()) or None,
            phases=phases,
        )


def read_run(path: Path) -> Run:
    """Read the files of a run that exist.

    Raises:
        CheckpointError: The folder is not a run folder.
    """
    if not (path / "config.json").is_file() and not (path / "metrics.jsonl").is_file():
        raise CheckpointError(f"{path}: is not a run folder; it has no config.json")
    problems: list[str] = []
    stored = mapping(_json(path / "config.json", problems))
    config = None
    try:
        current = fields.with_current_keys(TrainConfig, mapping(stored.get("config")))
        config = fields.from_dict(TrainConfig, current)
    except ConfigError as error:
        problems.append(f"config.json was written by another version: {'; '.join(error.problems)}")
    try:
        lines = tuple(_usable(MetricsFile(path / "metrics.jsonl").lines()))
    except (OSError, ValueError) as error:
        lines = ()
        problems.append(f"metrics.jsonl cannot be read: {error}")
    result = None
    if (path / "result.json").exists():
        content = _json(path / "result.json", problems)
        result = content if isinstance(content, dict) else None
    cost = _cost(_json(path / COST, problems)) if (path / COST).exists() else None
    run = Run(path, path.resolve().name, stored, config, lines, result, tuple(problems), cost)
    if run.evaluated:
        return replace(run, name=f"{path.resolve().parents[1].name} on {run.name}")
    return run


def number(value: object) -> float | None:
    """Return a finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 and isfinite(value) else None


def numbers(value: object) -> dict[str, float]:
    """Return the entries of a mapping that are finite numbers."""
    converted = {str(key): number(entry) for key, entry in mapping(value).items()}
    return {key: entry for key, entry in converted.items() if entry is not None}


def mapping(value: object) -> Mapping[str, Any]:
    """Return a mapping, or an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def _cost(content: object) -> Cost | None:
    amount, currency = (mapping(content).get(key) for key in ("amount", "currency"))
    known = number(amount)
    return Cost(known, currency) if known is not None and isinstance(currency, str) else None


def _usable(lines: Iterable[object]) -> Iterable[MetricsLine]:
    for line in lines:
        if not isinstance(line, dict) or not isinstance(line.get("event"), str):
            continue
        if isinstance(line.get("step"), int) and line["step"] >= 0:
            yield line


def _json(path: Path, problems: list[str]) -> object:
    try:
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        problems.append(f"{path.name} cannot be read: {reason}")
        return None


def options(config: TrainConfig) -> dict[str, object]:
    """Return the dotted keys and values of a configuration."""
    return {leaf.key: fields.get(config, leaf.key) for leaf in fields.leaves(TrainConfig)}


def show_option(value: object) -> str:
    """Format the value of an option as on a command line."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
