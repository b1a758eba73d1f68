"""Repeats the steps of a run between its checkpoints, and compares the resulting states.

plan_replay: which stated checkpoints follow from which one, by the same options and code. Pure.
replay:      runs `python -m trainer train` in a scratch folder, one run for each stretch.
"""

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy

from common.errors import ConfigError, UserError
from common.files import parse_json
from common.text import plural
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import STATE
from trainer.checkpoints.names import key_of
from trainer.diagnostics.environment import environment
from trainer.errors import CheckpointError
from trainer.extras.evidence.chain import Verified
from trainer.extras.evidence.leaf import EvidenceOptions
from trainer.extras.evidence.materials import code_facts, package_facts
from trainer.extras.evidence.statements import CHECKPOINTS, Statement, digest_file
from trainer.leaves import metrics_in
from trainer.own_code.code import FOLDER as OWN_CODE
from trainer.presets import to_args
from trainer.run_folder import RunRecord

MOST_SAVES: Final = 64
"""Checkpoints that one replay may write; if more would be needed to meet the stated ones, each of
them is replayed on its own."""
_NAME: Final = "replay"

Launch = Callable[[Sequence[str], int, Path], int]
"""Runs `python -m trainer` with these arguments and number of ranks, writes its output to a file,
and returns its status."""


@dataclass(frozen=True)
class Stretch:
    """Steps that one replay repeats: from a checkpoint, or the seed, to stated checkpoints."""

    begin: str | None
    """Name of the checkpoint that it begins from; None is the seed."""
    start: Statement
    """Start of the attempt that took these steps."""
    targets: tuple[Statement, ...]
    """Stated checkpoints to meet, by step."""

    @property
    def saves_every(self) -> int:
        """Steps between the checkpoints that a replay writes; 0 writes only the last."""
        steps = [target.predicate["step"] for target in self.targets]
        return math.gcd(*steps) if len(steps) > 1 else 0


@dataclass(frozen=True)
class Outcome:
    """What became of one replayed link."""

    step: int
    origin: int
    """Step that it follows from."""
    equal: bool
    text: str
    broken: bool = False


def recipe(start: Statement) -> tuple[str, ...]:
    """Return what steps follow from besides their checkpoint, as a key."""
    stated = start.predicate
    configuration = {
        key: value
        for key, value in stated["configuration"].items()
        if key in ("config_hash", "ranks", "global_batch", "data_version", "threads", "own_network")
    }
    optimizer = stated["configuration"]["config"]["optimizer"]
    epochs = stated["configuration"]["config"]["epochs"]
    parts = (configuration, optimizer, epochs, stated["code"]["sha256"], stated["packages"])
    return tuple(json.dumps(part, sort_keys=True) for part in parts)


def path_to(verified: Verified, name: str) -> list[Statement]:
    """Return the statements of the checkpoints that one follows from, first to last, with it."""
    by_name = {statement.predicate["name"]: statement for statement in verified.of("checkpoint")}
    path = list[Statement]()
    while name in by_name and len(path) < len(by_name):
        path.insert(0, by_name[name])
        before = by_name[name].predicate["follows"]
        if before is None:
            break
        name = before["name"]
    return path


def plan_replay(verified: Verified, begin: int, end: int) -> list[Stretch]:
    """Plan the replay of the steps from one checkpoint to another.

    Args:
        verified: A run whose statements hold.
        begin: Step of a checkpoint that is there, or 0 for the seed.
        end: Step of a stated checkpoint.

    Raises:
        CheckpointError: There is no such checkpoint, or the one does not follow from the other.
    """
    ends = [
        statement for statement in verified.of("checkpoint") if statement.predicate["step"] == end
    ]
    steps = (
        ", ".join(f"{statement.predicate['step']}" for statement in verified.of("checkpoint"))
        or "none"
    )
    if not ends:
        raise CheckpointError(
            f"{verified.run}: no checkpoint of step {end} was stated; stated are: {steps}"
        )
    path = path_to(verified, ends[-1].predicate["name"])
    before = [statement for statement in path if statement.predicate["step"] == begin]
    first = path[0].predicate["follows"] if path else None
    if (not before and begin) or (first is not None and not before):
        raise CheckpointError(
            f"{verified.run}: step {end} does not follow from a stated checkpoint of step {begin};"
            f" stated are: {steps}"
        )
    name = before[0].predicate["name"] if before else None
    if name is not None and not (verified.run / CHECKPOINTS / name / STATE).exists():
        raise CheckpointError(
            f"{verified.run}: the checkpoint of step {begin} was deleted, so no replay begins"
            " there; 0 begins with the seed"
        )
    starts = {statement.digest: statement for statement in verified.of("start")}
    stretches = list[Stretch]()
    for statement in path:
        if statement.predicate["step"] <= begin:
            continue
        start = starts.get(statement.predicate["start"])
        if start is None:
            raise CheckpointError(
                f"{verified.run}: the attempt that took step {statement.predicate['step']} stated"
                " nothing about itself, so its steps cannot be repeated"
            )
        last = stretches[-1] if stretches else None
        joined = last and replace(last, targets=(*last.targets, statement))
        if last and joined and recipe(last.start) == recipe(start) and _fits(joined):
            stretches[-1] = joined
        else:
            before_it = statement.predicate["follows"]
            stretches.append(Stretch(before_it and before_it["name"], start, (statement,)))
    return stretches


def _fits(stretch: Stretch) -> bool:
    """Return whether one replay can meet all of its targets without writing many others.

    A run that may go back to its newest checkpoint would go back to others in such a replay.
    """
    rules = stretch.start.predicate["configuration"]["config"]["checkpoint"]
    span = stretch.targets[-1].predicate["step"] - stretch.start.predicate["step"]
    return bool(rules["on_non_finite"] == "stop" and span / stretch.saves_every <= MOST_SAVES)


def links(verified: Verified) -> list[tuple[int, int]]:
    """Return the steps of each link, from one stated checkpoint to the next, whose first checkpoint
    is there, or which begins with the seed.
    """
    possible = []
    for statement in verified.of("checkpoint"):
        before, step = statement.predicate["follows"], statement.predicate["step"]
        key = key_of(before["name"]) if before else None
        if statement.predicate["start"] is None:
            continue
        if before is None:
            possible.append((0, step))
        elif key and (verified.run / CHECKPOINTS / before["name"] / STATE).exists():
            possible.append((key.step, step))
    return sorted(set(possible))


def other_here(start: Statement) -> list[str]:
    """List what differs here from the run, so that bits are not promised."""
    stated, texts = start.predicate, []
    here, then = environment(), stated["environment"]
    for key, name in (("processor", "CPU"), ("gpus", "GPUs")):
        if here.get(key) != then.get(key) and key != "gpus":
            texts.append(f"{name} {here.get(key)}, not {then.get(key)}")
    if then.get("gpus"):
        texts.append(f"the run's GPUs, {then['gpus'][0]}, may not be those of this machine")
    versions = package_facts()["versions"]
    for key, version in stated["packages"]["versions"].items():
        if versions.get(key) != version and key in _COMPUTE:
            texts.append(f"{key} {versions.get(key)}, not {version}")
    code = code_facts()
    if code["sha256"] != stated["code"]["sha256"]:
        names = code["files"].keys() | stated["code"]["files"].keys()
        changed = sorted(
            name for name in names if code["files"].get(name) != stated["code"]["files"].get(name)
        )
        texts.append(f"{plural(len(changed), 'file')} of the code, such as {changed[0]}")
    return texts


_COMPUTE: Final = frozenset(
    {
        *("tensorflow", "tensorflow-cpu", "tf-keras", "horovod", "numpy", "pillow"),
        *("nvidia-cudnn-cu12", "nvidia-cublas-cu12", "nvidia-nccl-cu12", "keras"),
    }
)
"""Packages that compute a step."""


def launch(args: Sequence[str], ranks: int, log: Path) -> int:
    """See `Launch`: start a process of this Python."""
    del ranks
    with log.open("w") as output:
        command = [sys.executable, "-m", "trainer", *args]
        return subprocess.run(command, stdout=output, stderr=output, check=False).returncode


@dataclass(frozen=True)
class Replay:
    """How to repeat the steps of a run."""

    verified: Verified
    scratch: Path
    """Empty folder."""
    ranks: int | None = None
    """Number of ranks; None is that of the run."""
    data_dir: str | None = None
    tolerance: float = 0.05
    launch: Launch = launch

    def stretch(
        self, number: int, stretch: Stretch, begin: Path | None
    ) -> tuple[list[Outcome], Path]:
        """Repeat a stretch.

        Args:
            number: Its number, for the name of its folder.
            stretch: The stretch.
            begin: The checkpoint that it begins from; None is the seed.

        Returns:
            What became of each target, and the replay's last checkpoint.

        Raises:
            UserError: The steps could not be taken.
        """
        runs = self.scratch / f"{number}"
        run, last = runs / _NAME, stretch.targets[-1].predicate["step"]
        run.mkdir(parents=True)
        record = self._record(stretch, runs)
        if begin is not None:
            shutil.copytree(begin, run / CHECKPOINTS / begin.name)
            (run / "config.json").write_text(json.dumps(stretch.start.predicate["configuration"]))
        if (self.verified.run / OWN_CODE).is_dir():
            shutil.copytree(self.verified.run / OWN_CODE, run / OWN_CODE)
        log = runs / "log"
        status = self.launch(["train", *to_args(record.config)], record.config.ranks, log)
        if status:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise UserError(
                f"{self.verified.run}: the steps up to {last} could not be repeated: the replay"
                f" ended with status {status}:\n{tail}"
            )
        folder = CheckpointFolder(run / CHECKPOINTS)
        paths = {key.step: path for path in folder.paths() if (key := key_of(path.name))}
        origin = _step(stretch.begin)
        outcomes = []
        other = other_here(stretch.start)
        for target in stretch.targets:
            step = target.predicate["step"]
            outcomes.append(self._compare(target, origin, paths[step], begin, other))
            origin = step
        if not other:
            outcomes += self._compare_result(stretch, run)
        return outcomes, paths[last]

    def _record(self, stretch: Stretch, runs: Path) -> RunRecord:
        """Return the configuration of the replay.

        Raises:
            ConfigError: Another number of ranks would take other steps.
        """
        record = RunRecord.from_json(stretch.start.predicate["configuration"])
        ranks = self.ranks or record.ranks
        config = record.config
        if config.strategy.batches(ranks) != record.batches:
            raise ConfigError(
                [
                    f"--ranks: {ranks} ranks take other steps than the {record.ranks} of the run;"
                    f" use {record.ranks}"
                ]
            )
        if problems := config.misfits(ranks):
            raise ConfigError(problems)
        saves = replace(
            config.checkpoint,
            every_minutes=0.0,
            every_epochs=0,
            every_steps=stretch.saves_every,
            keep=10**6,
            when_busy="wait",
        )
        # mypy does not know the groups of leaves as fields.
        unstated: dict[str, Any] = {"evidence": EvidenceOptions(chain=False)}
        changed = replace(
            config.unobserved(),
            name=_NAME,
            runs_dir=str(runs),
            resume="auto",
            ranks=ranks,
            restarts=0,
            max_steps=stretch.targets[-1].predicate["step"],
            max_seconds=None,
            export=False,
            checkpoint=saves,
            evaluation=replace(config.evaluation, every_epochs=0),
            data=replace(config.data, dir=self.data_dir or config.data.dir),
            compute=replace(config.compute, threads=record.threads or config.compute.threads),
            log=replace(config.log, report=False, images="none", tensorboard_dir=None),
            **unstated,
        )
        return replace(record, config=changed)

    def _compare(
        self, target: Statement, origin: int, replayed: Path, begin: Path | None, other: list[str]
    ) -> Outcome:
        predicate = target.predicate
        name, step = predicate["name"], predicate["step"]
        if digest_file(replayed / STATE) == target.state:
            return Outcome(step, origin, True, "bit-identical")
        stated = self.verified.run / CHECKPOINTS / name / STATE
        if not stated.exists():
            text = f"weights of step {step} do not follow from step {origin}: their digest differs"
            return Outcome(step, origin, False, text, broken=not other)
        tensors, others = (safetensors.numpy.load_file(path) for path in (stated, replayed / STATE))
        if not other:
            text = f"weights of step {step} do not follow from step {origin}"
            return Outcome(step, origin, False, f"{text}: {unequal(tensors, others)}", broken=True)
        start = safetensors.numpy.load_file(begin / STATE) if begin else None
        distance = relative_distance(tensors, others, start)
        if distance <= self.tolerance:
            text = (
                f"not bit-identical, as here are {'; '.join(other)}: they differ by {distance:.2g}"
            )
            return Outcome(step, origin, False, f"{text} of their change")
        text = (
            f"weights of step {step} do not follow from step {origin}: they differ by"
            f" {distance:.2g} of their change, more than --tolerance {self.tolerance:g}, with other"
            f" {'; '.join(other)}"
        )
        return Outcome(step, origin, False, text, broken=True)

    def _compare_result(self, stretch: Stretch, run: Path) -> list[Outcome]:
        """Compare the metrics, if the stretch ends where the run's result is from."""
        results, step = self.verified.of("result"), stretch.targets[-1].predicate["step"]
        if not results or results[-1].predicate["step"] != step:
            return []
        stated = results[-1].predicate["result"]
        now = parse_json((run / "result.json").read_text())
        changed = [
            f"{metric.key} is {now.get(metric.key)}, not {stated.get(metric.key)}"
            for metric in metrics_in(stated)
            if now.get(metric.key) != stated.get(metric.key)
        ]
        if not changed:
            return []
        origin = _step(stretch.begin)
        text = f"result.json does not follow from the weights of step {step}: {'; '.join(changed)}"
        return [Outcome(step, origin, False, text, broken=True)]


def replay(how: Replay, stretches: Sequence[Stretch]) -> list[Outcome]:
    """Repeat stretches one after the other; each continues with the replayed state of the one
    before, or with its own checkpoint where there is one. Stops at the first that is broken.
    """
    outcomes, before = list[Outcome](), None
    for number, stretch in enumerate(stretches):
        own = how.verified.run / CHECKPOINTS / stretch.begin if stretch.begin else None
        begin = own if own is None or own.exists() else before
        if stretch.begin is not None and begin is None:
            raise CheckpointError(
                f"{how.verified.run}: the checkpoint {stretch.begin} was deleted, so no replay"
                " begins there; 0 begins with the seed"
            )
        results, before = how.stretch(number, stretch, begin)
        outcomes += results
        if any(outcome.broken for outcome in results):
            break
        with suppress(OSError):
            # A state of a large network takes gigabytes, and only the last is needed.
            for path in (how.scratch / f"{number}").glob(f"{_NAME}/{CHECKPOINTS}/step-*"):
                if path != before:
                    shutil.rmtree(path)
    return outcomes


def unequal(tensors: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Say in which tensors two states differ; both have the same names in runs of one network."""
    names = sorted(tensors.keys() ^ others.keys())
    if names:
        return f"{names[0]} is in one of them only"
    differing = [name for name, array in tensors.items() if not _same(array, others[name])]
    if not differing:
        return "only the bytes of their files differ"
    name = differing[0]
    where = int(np.sum(tensors[name] != others[name])) if _alike(tensors, others, name) else 0
    count = f"{where:,} of {plural(tensors[name].size, 'value')}" if where else "its shape"
    return f"{name} differs in {count}; {plural(len(differing), 'tensor')} of {len(tensors)} differ"


def relative_distance(
    tensors: Mapping[str, Any], others: Mapping[str, Any], start: Mapping[str, Any] | None
) -> float:
    """Return the norm of the difference of two states, by that of their change since the start;
    without a start, or without any change, by that of the first state.

    Only floating-point tensors count, since counters and positions are not approximate; infinite
    if those or the names differ.
    """
    if tensors.keys() != others.keys():
        return math.inf
    difference, change = 0.0, 0.0
    for name, array in tensors.items():
        if not _alike(tensors, others, name):
            return math.inf
        if not np.issubdtype(array.dtype, np.floating):
            if not _same(array, others[name]):
                return math.inf
            continue
        origin = start[name] if start and name in start else np.zeros_like(array)
        difference += float(np.sum((array.astype("f8") - others[name]) ** 2))
        change += float(np.sum((array.astype("f8") - origin) ** 2))
    return math.sqrt(difference / change) if change else math.inf


def _alike(tensors: Mapping[str, Any], others: Mapping[str, Any], name: str) -> bool:
    return bool(tensors[name].shape == others[name].shape)


def _same(array: Any, other: Any) -> bool:
    return bool(array.tobytes() == other.tobytes())


def _step(name: str | None) -> int:
    key = key_of(name) if name else None
    return key.step if key else 0
