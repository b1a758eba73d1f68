"""The run folder: runs/NAME with config.json, metrics.jsonl, tblogs, checkpoints and
result.json.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from common import fields
from common.errors import ConfigError
from common.files import parse_json, write_atomically
from trainer import __version__
from trainer.checkpoints.folder import CheckpointFolder
from trainer.checkpoints.format import Checkpoint
from trainer.config import TrainConfig
from trainer.data.manifest import Normalization
from trainer.errors import CheckpointError
from trainer.leaves import LEAVES
from trainer.loggers.metrics_file import MetricsFile
from trainer.own_code.code import OwnCode


def _keys(*meanings: str) -> tuple[str, ...]:
    """Return the groups of leaves whose change means one of these; see `Leaf.on_resume`."""
    return tuple(leaf.key for leaf in LEAVES if leaf.options and leaf.on_resume in meanings)


_MAY_CHANGE = (
    "preset",
    "name",
    "runs_dir",
    "resume",
    "accept_changed_code",
    "ranks",
    "restarts",
    "batch_size",
    "max_steps",
    "max_seconds",
    "export",
    "data.dir",
    "data.decode_threads",
    "data.prefetch_batches",
    "compute.steps_per_loop",
    "compute.threads",
    "exchange.groups",
    "exchange.compression",
    "exchange.cycle_time_ms",
    "exchange.fusion_threshold_mb",
    "exchange.infiniband",
    "exchange.timeline",
    "exchange.timeout_seconds",
    "watchdog",
    "evaluation",
    "checkpoint",
    "log",
    *_keys("free", "unreported"),
)
"""Keys and groups that may differ when a run is continued; the global batch must stay."""
_RESHAPES_THE_REST = (
    "epochs",
    "optimizer.learning_rate",
    "optimizer.rate_scaling",
    "optimizer.warmup_epochs",
    "optimizer.schedule",
    "optimizer.end_rate",
    "optimizer.decay_epochs",
    "optimizer.decay_factor",
    "optimizer.momentum",
    "optimizer.nesterov",
    "optimizer.weight_decay",
    "optimizer.trust",
    "optimizer.beta1",
    "optimizer.beta2",
    "optimizer.accumulation",
    "optimizer.epsilon",
    "optimizer.label_smoothing",
    "optimizer.rates",
    "optimizer.layer_decay",
    "compute.deterministic",
    *_keys("changes the rest"),
)
"""Keys that may change for the rest of a run, but then change its result."""
_REASONS = {
    "optimizer.kind": "the velocities that one optimizer has saved mean nothing to another",
}
"""Why keys may not change, where that is not plain."""
_SHARES = "batch norm and dropout take the images of a step in other parts"
_RESHAPED_BY = {
    "ranks": f"sums are added in another order, and {_SHARES}",
    "batch_size": _SHARES,
    "optimizer.accumulation": _SHARES,
    "compute.threads": "a CPU adds in another order with another number of threads",
    "exchange.compression": "gradients are rounded to another precision while they travel",
}
"""Keys that compute a step in another way, and the effect of that."""
_UNREPORTED = (
    *("preset", "name", "runs_dir", "resume", "accept_changed_code", "max_steps", "max_seconds"),
    *_keys("unreported"),
)
"""Keys whose change is not reported."""
_OUT_OF_MEMORY = ".out-of-memory.json"
"""File of a run of which a step did not fit into memory. It is hidden, because that is often the
first step, before which a run has no folder."""
Which = Literal["last", "best"]
"""last: the newest valid checkpoint; best: the best one among those kept, by the metric that
`--early-stop.metric` names."""


@dataclass(frozen=True)
class RunRecord:
    """The content of config.json: the options, software and machine of a run."""

    config: TrainConfig
    ranks: int
    global_batch: int
    """Images per step, over all ranks."""
    data_version: str
    class_names: tuple[str, ...] | None = None
    """Class names in the order of the model's outputs; None if an older version wrote the run."""
    normalization: Normalization | None = None
    """Normalization of the model's inputs; None if an older version wrote the run."""
    own_network: OwnCode | None = None
    """Code of an own network; None without one, or if an older version wrote the run."""
    threads: int | None = None
    """Threads with which each rank computes; None on a GPU, or if an older version wrote the
    run."""

    @property
    def batches(self) -> int:
        """Batches of which a step consists, over all ranks."""
        return self.config.strategy.batches(self.ranks)

    levels: tuple[float, float] | None = None
    """Values that became 0 and 255 in images of more than 8 bits; None if there were none."""
    reencode: tuple[int, int] | None = None
    """Short side to which the images were shrunk, and their quality; None if they were kept."""

    @property
    def treatment(self) -> dict[str, list[float]]:
        """Facts of the images' treatment that `treatment_of` reads; those that there are."""
        facts = {"levels": self.levels, "reencode": self.reencode}
        return {key: list(pair) for key, pair in facts.items() if pair}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "RunRecord":
        """Read the data that `to_json` returns.

        Raises:
            ConfigError: The configuration was written by a version with other options.
        """
        current = fields.with_current_keys(TrainConfig, data["config"])
        config = fields.from_dict(TrainConfig, current)
        record = RunRecord(
            config,
            data.get("ranks", config.ranks),
            data["global_batch"],
            data["data_version"],
            own_network=OwnCode.from_json(data.get("own_network")),
            threads=data.get("threads"),
        )
        model = data.get("meaning")
        if model is None:
            return record
        normalization = Normalization(tuple(model["mean"]), tuple(model["deviation"]))
        names = tuple(model["classes"])
        levels, reencode = model.get("levels"), model.get("reencode")
        return replace(
            record,
            class_names=names,
            normalization=normalization,
            levels=(levels[0], levels[1]) if levels else None,
            reencode=(reencode[0], reencode[1]) if reencode else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data for config.json and for every checkpoint."""
        data: dict[str, Any] = {
            "config": fields.to_dict(self.config),
            "config_hash": config_hash(self.config),
            "code_version": __version__,
            "ranks": self.ranks,
            "global_batch": self.global_batch,
            "data_version": self.data_version,
        }
        if self.threads is not None:
            data["threads"] = self.threads
        if self.class_names is not None and self.normalization is not None:
            mean, std = self.normalization.mean, self.normalization.std
            # The key keeps the earlier name of these facts, so that existing runs can be read.
            names = list(self.class_names)
            treatment = self.treatment
            data["meaning"] = {"classes": names, "mean": mean, "deviation": std, **treatment}
        if self.own_network is not None:
            data["own_network"] = self.own_network.to_json()
        return data


class RunFolder:
    """One run on disk. Only rank 0 writes, except where a method says otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = CheckpointFolder(path / "checkpoints")
        self.metrics = MetricsFile(path / "metrics.jsonl")

    @property
    def exists(self) -> bool:
        return (self.path / "config.json").exists()

    def finished_at(self, step: int) -> bool:
        """Return whether result.json exists and is that of this step, not of a shorter run."""
        try:
            return bool(parse_json((self.path / "result.json").read_text())["steps"] == step)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def read(self) -> RunRecord:
        """Read config.json.

        Raises:
            CheckpointError: The folder is not a run folder, or a version with other options wrote
                it.
        """
        try:
            data = parse_json((self.path / "config.json").read_text())
        except (OSError, ValueError) as error:
            reason = (
                "it has no config.json"
                if isinstance(error, FileNotFoundError)
                else f"config.json: {error}"
            )
            raise CheckpointError(f"{self.path}: is not a run folder; {reason}") from error
        if not isinstance(data, dict) or not {"config", "global_batch", "data_version"} <= set(
            data
        ):
            raise CheckpointError(f"{self.path}: config.json is not that of a run")
        try:
            return RunRecord.from_json(data)
        except ConfigError as error:
            raise CheckpointError(f"{self.path}: config.json cannot be used: {error}") from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{self.path}: config.json is not that of a run ({type(error).__name__}: {error})"
            ) from error

    def find_checkpoint(self, which: Which | None) -> Checkpoint:
        """Return the last or the best checkpoint; for None, the one that the result is of.

        Raises:
            CheckpointError: There is no valid checkpoint, or for `best` none that was evaluated.
        """
        which = which or self.read().config.result_of
        checkpoint = self.checkpoints.best() if which == "best" else self.checkpoints.newest()
        if checkpoint is None:
            kind = "valid, evaluated checkpoint" if which == "best" else "valid checkpoint"
            raise CheckpointError(
                f"{self.path}: has no {kind}; continue its training, or choose another run"
            )
        return checkpoint

    @property
    def accumulation(self) -> int:
        """Micro-batches of a batch since a step did not fit into memory; 1 before that."""
        try:
            value = parse_json((self.path / _OUT_OF_MEMORY).read_text())["accumulation"]
        except (OSError, ValueError, KeyError, TypeError):
            return 1
        return value if isinstance(value, int) and value > 0 else 1

    def divide_batches(self, accumulation: int) -> None:
        """Have the following attempts take batches in so many micro-batches; any rank may call."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(_OUT_OF_MEMORY, {"accumulation": accumulation})

    def create(self, record: RunRecord) -> None:
        """Make the folder with its config.json, and point the link `latest` next to it to it."""
        self._write("config.json", record.to_json())
        self.point_latest()

    def point_latest(self) -> None:
        """Point the link runs/latest to this run, if the file system has links."""
        latest, scratch = self.path.parent / "latest", self.path.parent / f".latest-{os.getpid()}"
        try:
            scratch.symlink_to(self.path.name)
            scratch.replace(latest)
        except OSError:
            scratch.unlink(missing_ok=True)

    def write_result(self, result: dict[str, Any]) -> None:
        """Write result.json atomically."""
        self._write("result.json", result)

    def _write(self, name: str, data: dict[str, Any]) -> None:
        write_atomically(self.path / name, json.dumps(data, indent=1) + "\n")


def without(config: TrainConfig, *groups: str) -> dict[str, object]:
    """Return the dotted keys and values of a configuration, without some groups or keys."""
    return {
        leaf.key: fields.get(config, leaf.key)
        for leaf in fields.leaves(TrainConfig)
        if not _in(leaf.key, groups)
    }


def decisive(config: TrainConfig) -> dict[str, object]:
    """Return the options that may not change during a run, or only for its rest, by dotted key."""
    return without(config, *_MAY_CHANGE)


def new_name(config: TrainConfig, now: datetime) -> str:
    """Return a name for a run that was not given one: its preset and the time."""
    return f"{config.preset}-{now:%Y%m%d-%H%M%S}-{now.microsecond // 1000:03d}"


def config_hash(config: TrainConfig) -> str:
    """Return the SHA-256 of the options of `decisive`."""
    text = json.dumps(decisive(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def check_continues(run: RunFolder, record: RunRecord) -> list[str]:
    """Check that an existing run may be continued with this configuration.

    Returns:
        One sentence for each option that has changed, except those in `_UNREPORTED`.

    Raises:
        CheckpointError: `--resume never` was given, or the run belongs to another configuration;
            lists every difference.
    """
    if not run.exists:
        timeline = record.config.exchange.timeline
        if run.path.exists() and not (run.path.is_dir() and not _content(run.path, timeline)):
            raise CheckpointError(
                f"{run.path}: exists but is not a run folder; choose another --name"
            )
        return []
    if record.config.resume == "never":
        raise CheckpointError(
            f"{run.path}: already exists; choose another --name, or --resume auto to continue it"
        )
    stored = run.read()
    before, now = _values(stored), _values(record)
    if stored.threads and record.threads:
        # Those that are used, because 0 means another number on another machine.
        before["compute.threads"], now["compute.threads"] = stored.threads, record.threads
    changed = {
        key: f"--{key.replace('_', '-')}: was {before[key]}, is now {value}"
        for key, value in now.items()
        if before[key] != value
    }
    differences = [
        text + (f" ({_REASONS[key]})" if key in _REASONS else "")
        for key, text in changed.items()
        if not _in(key, _MAY_CHANGE + _RESHAPES_THE_REST)
    ]
    if stored.global_batch != record.global_batch:
        differences.append(
            f"global batch (--batch-size x ranks): was {stored.global_batch}, is now"
            f" {record.global_batch}; change --batch-size so that the product stays the same"
        )
    if stored.data_version != record.data_version:
        differences.append(f"data version: was {stored.data_version}, is now {record.data_version}")
    if differences:
        listed = "\n".join(f"  - {difference}" for difference in differences)
        raise CheckpointError(
            f"{run.path}: belongs to another configuration; choose another --name, or undo these"
            " changes:\n"
            f"{listed}"
        )
    same: tuple[str, ...] = () if record.threads else ("compute.threads",)
    if stored.batches == record.batches:
        # Whatever ranks there are, they compute the same.
        same += ("ranks",)
    return [text + _effect(key) * (key not in same) for key, text in changed.items()]


def _values(record: RunRecord) -> dict[str, object]:
    """Return the values to compare with another attempt: options by key, and the ranks that there
    are, which a launcher may have decided.
    """
    return {**without(record.config, *_UNREPORTED), "ranks": record.ranks}


def _effect(key: str) -> str:
    """Return the words for the effect of a changed option, with a space before them, or nothing."""
    if key in _RESHAPED_BY:
        return f" (this changes the result of the run: {_RESHAPED_BY[key]})"
    return " (this changes the result of the run)" * _in(key, _RESHAPES_THE_REST)


def _content(folder: Path, timeline: str | None) -> list[Path]:
    """Return the files and folders in a folder without hidden ones, such as requests to a run that
    starts, and without its timeline, which Horovod begins when the ranks meet.
    """
    written = Path(timeline).absolute() if timeline else None
    return [
        path
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and not (written and written.is_relative_to(path.absolute()))
    ]


def _in(key: str, groups: Sequence[str]) -> bool:
    return any(key == group or key.startswith(group + ".") for group in groups)
