"""The run folder: runs/NAME with config.json, metrics.jsonl, tblogs, checkpoints and
result.json.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from common import fields
from common.errors import ConfigError
from trainer import __version__
from trainer.checkpoints.folder import CheckpointFolder
from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.errors import CheckpointError
from trainer.training.metrics import MetricsFile

_MAY_CHANGE = (
    "preset",
    "name",
    "runs_dir",
    "resume",
    "ranks",
    "restarts",
    "batch_size",
    "max_steps",
    "export",
    "profile_steps",
    "data.dir",
    "data.cache_dir",
    "data.decode_threads",
    "data.prefetch_batches",
    "compute.steps_per_loop",
    "compute.threads",
    "exchange",
    "watchdog",
    "evaluation",
    "checkpoint",
    "log",
)
"""Keys and groups that may differ when a run is continued; the global batch must stay."""

_RESHAPES_THE_REST = (
    "epochs",
    "optimizer.learning_rate",
    "optimizer.warmup_epochs",
    "optimizer.schedule",
    "optimizer.decay_epochs",
    "optimizer.decay_factor",
    "optimizer.momentum",
    "optimizer.nesterov",
    "optimizer.weight_decay",
    "optimizer.label_smoothing",
)
"""Those that make sense for the rest of a run, whose result is another one then."""

_SAYS_WHERE = ("preset", "name", "runs_dir", "resume", "max_steps", "profile_steps")
"""Those whose change is not worth a word."""


class RunFolder:
    """One run on disk. Only rank 0 writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = CheckpointFolder(path / "checkpoints")
        self.metrics = MetricsFile(path / "metrics.jsonl")

    @property
    def exists(self) -> bool:
        return (self.path / "config.json").exists()

    def finished_at(self, step: int) -> bool:
        """Whether the result is there, and of this step; an earlier one is of a shorter run."""
        try:
            return bool(json.loads((self.path / "result.json").read_text())["steps"] == step)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def stored(self) -> dict[str, Any]:
        """What config.json says.

        Raises:
            CheckpointError: the folder is not a run's.
        """
        try:
            data = json.loads((self.path / "config.json").read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{self.path}: is not the folder of a run ({error})") from error
        if not isinstance(data, dict) or not {"config", "global_batch", "data_version"} <= set(
            data
        ):
            raise CheckpointError(f"{self.path}: its config.json is not that of a run")
        return data

    def class_names_and_normalization(self) -> tuple[tuple[str, ...], Normalization] | None:
        """What config.json says of the model's outputs and inputs; None in a run of a version that
        did not keep it.

        Raises:
            CheckpointError: the folder is not a run's.
        """
        facts = self.stored().get("meaning")
        if facts is None:
            return None
        normalization = Normalization(tuple(facts["mean"]), tuple(facts["deviation"]))
        return tuple(facts["classes"]), normalization

    def config(self) -> TrainConfig:
        """The configuration that the run was started with.

        Raises:
            CheckpointError: the folder is not a run's, or of a version that knew other options.
        """
        try:
            return fields.from_dict(TrainConfig, self.stored()["config"])
        except ConfigError as error:
            raise CheckpointError(
                f"{self.path}: its config.json cannot be used: {error}"
            ) from error

    def create(self, config: TrainConfig, facts: dict[str, Any]) -> None:
        """Make the folder, and let `latest` beside it point to it."""
        self.path.mkdir(parents=True, exist_ok=True)
        data = {
            "config": fields.to_dict(config),
            "config_hash": config_hash(config),
            "code_version": __version__,
            **facts,
        }
        self._write("config.json", data)
        self.point_latest()

    def point_latest(self) -> None:
        """Let runs/latest point here, where the file system has links."""
        latest, scratch = self.path.parent / "latest", self.path.parent / f".latest-{os.getpid()}"
        try:
            scratch.symlink_to(self.path.name)
            scratch.replace(latest)
        except OSError:
            scratch.unlink(missing_ok=True)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json, whole or not at all."""
        self._write("result.json", result)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        scratch = self.path / f".{name}.partial"
        scratch.write_text(json.dumps(data, indent=1) + "\n")
        scratch.replace(self.path / name)


def model_facts(class_names: tuple[str, ...], normalization: Normalization) -> dict[str, Any]:
    """What config.json says of the model's outputs and inputs, so that the model can be used
    without the data set.
    """
    mean, std = normalization.mean, normalization.std
    return {"meaning": {"classes": class_names, "mean": mean, "deviation": std}}


def without(config: TrainConfig, *groups: str) -> dict[str, object]:
    """Dotted keys and values of a configuration, less some groups or keys, for comparison."""
    return {
        leaf.key: fields.get(config, leaf.key)
        for leaf in fields.leaves(TrainConfig)
        if not _in(leaf.key, groups)
    }


def decisive(config: TrainConfig) -> dict[str, object]:
    """The options that decide the result, by dotted key."""
    return without(config, *_MAY_CHANGE)


def new_name(config: TrainConfig, now: datetime) -> str:
    """The name of a run that was given none."""
    return f"{config.preset}-{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}"


def config_hash(config: TrainConfig) -> str:
    """SHA-256 of the options that decide the result."""
    text = json.dumps(decisive(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_continues(
    run: RunFolder, config: TrainConfig, global_batch: int, data_version: str
) -> list[str]:
    """Make sure that a run that exists may be continued with this configuration.

    Returns:
        What of it is changed, in words; not what says where things are.

    Raises:
        CheckpointError: `--resume never`, or it belongs to another configuration; every difference
            is listed.
    """
    if not run.exists:
        if run.path.exists() and not (run.path.is_dir() and not any(run.path.iterdir())):
            raise CheckpointError(f"{run.path}: exists and is not a run; choose another --name")
        return []
    if config.resume == "never":
        raise CheckpointError(
            f"{run.path}: exists; choose another --name, or --resume auto to continue it"
        )
    stored = run.stored()
    before, now = without(run.config(), *_SAYS_WHERE), without(config, *_SAYS_WHERE)
    changed = {
        key: f"--{key.replace('_', '-')}: {before[key]} then, {value} now"
        for key, value in now.items()
        if before[key] != value
    }
    differences = [
        text for key, text in changed.items() if not _in(key, _MAY_CHANGE + _RESHAPES_THE_REST)
    ]
    if stored["global_batch"] != global_batch:
        differences.append(
            f"global batch (--batch-size x ranks): {stored['global_batch']} then, {global_batch}"
            " now; change --batch-size so that the product stays"
        )
    if stored["data_version"] != data_version:
        differences.append(f"data version: {stored['data_version']} then, {data_version} now")
    if differences:
        listed = "\n".join(f"  - {difference}" for difference in differences)
        raise CheckpointError(
            f"{run.path}: belongs to another configuration; choose another --name, or undo:\n"
            f"{listed}"
        )
    return [
        text + " (another result than without the change)" * _in(key, _RESHAPES_THE_REST)
        for key, text in changed.items()
    ]


def _in(key: str, groups: Sequence[str]) -> bool:
    return any(key == group or key.startswith(group + ".") for group in groups)
